/* Bulk transfer to or from a server, with the calls of iperf3's client, for a fair comparison of
 * the servers: select(), then up to ten rounds of a 128 KiB write to each writable socket; or
 * select() and one 128 KiB read of each readable one.  Prints one line of JSON. */
#include <fcntl.h>
#include <getopt.h>
#include <linux/sockios.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/select.h>

#include "bench.h"

enum {
	BLOCK_BYTES = 128 * 1024,
	ROUNDS = 10,
	CONNECTIONS_MAX = 512,
	SETTLE_MS = 5,
};

struct transfer {
	struct target target;
	bool receive;
	uint32_t connections;
	uint64_t duration_ms;
	int fds[CONNECTIONS_MAX], fd_max;
	uint64_t bytes;
};

static uint8_t block[BLOCK_BYTES];

static bool moved(struct transfer *t, ssize_t n)
{
	if (n > 0)
		t->bytes += (size_t)n;
	else if (n == 0 || errno != EAGAIN)
		errx(1, "%s: connection lost", t->target.name);
	return n == BLOCK_BYTES;
}

static void write_round(struct transfer *t, fd_set *ready)
{
	for (uint32_t i = 0; i < t->connections; i++) {
		int fd = t->fds[i];

		if (FD_ISSET(fd, ready) && !moved(t, write(fd, block, sizeof(block))))
			FD_CLR(fd, ready);
	}
}

static void transfer_turn(struct transfer *t)
{
	struct timeval timeout = { .tv_sec = 10 };
	fd_set ready;

	FD_ZERO(&ready);
	for (uint32_t i = 0; i < t->connections; i++)
		FD_SET(t->fds[i], &ready);
	if (select(t->fd_max + 1, t->receive ? &ready : NULL, t->receive ? NULL : &ready, NULL,
		   &timeout) <= 0)
		errx(1, "%s: no progress", t->target.name);
	for (unsigned i = 0; !t->receive && i < ROUNDS; i++)
		write_round(t, &ready);
	for (uint32_t i = 0; t->receive && i < t->connections; i++)
		if (FD_ISSET(t->fds[i], &ready))
			moved(t, read(t->fds[i], block, sizeof(block)));
}

/* Until the peer has received everything and the server has gone to sleep. */
static void transfer_settle(struct transfer *t)
{
	const struct timespec pause = { .tv_nsec = SETTLE_MS * NS_PER_MS };
	uint64_t cpu_ns, before_ns = 0;
	int unsent = 0;

	while ((cpu_ns = process_cpu_ns(t->target.pid)) != before_ns || unsent) {
		before_ns = cpu_ns;
		unsent = 0;
		for (uint32_t i = 0; i < t->connections && !unsent; i++)
			ioctl(t->fds[i], SIOCOUTQ, &unsent);
		nanosleep(&pause, NULL);
	}
}

static void transfer_open(struct transfer *t)
{
	for (uint32_t i = 0; i < t->connections; i++) {
		int fd = t->fds[i] = connect_loopback(t->target.port);

		if (fd >= FD_SETSIZE)
			errx(1, "too many connections");
		fcntl(fd, F_SETFL, O_NONBLOCK);
		t->fd_max = MAX(t->fd_max, fd);
	}
}

static void transfer_run(struct transfer *t)
{
	uint64_t cpu_ns = process_cpu_ns(t->target.pid), start_ns = clock_ns(), elapsed_ns;

	transfer_open(t);
	while (clock_ns() - start_ns < t->duration_ms * NS_PER_MS)
		transfer_turn(t);
	elapsed_ns = clock_ns() - start_ns;
	for (uint32_t i = 0; t->receive && i < t->connections; i++)
		close(t->fds[i]);
	if (t->receive)
		t->connections = 0;
	transfer_settle(t);
	cpu_ns = process_cpu_ns(t->target.pid) - cpu_ns;
	printf("{\"name\":\"%s\",\"bytes\":%ju,\"cpu_ns\":%ju,\"elapsed_ns\":%ju}\n",
	       t->target.name, (uintmax_t)t->bytes, (uintmax_t)cpu_ns, (uintmax_t)elapsed_ns);
}

int main(int argc, char **argv)
{
	struct transfer t = { .connections = 1, .duration_ms = 1000 };
	int option;

	while ((option = getopt(argc, argv, "c:t:r")) != -1) {
		if (option == 'c') {
			t.connections = (uint32_t)option_uint("-c", optarg, 1, CONNECTIONS_MAX);
		} else if (option == 't') {
			t.duration_ms = option_uint("-t", optarg, 1, 600 * 1000);
		} else if (option == 'r') {
			t.receive = true;
		} else {
			optind = argc;
		}
	}
	if (optind != argc - 1) {
		fprintf(stderr,
			"usage: bulk [-c CONNECTIONS] [-t MS] [-r(eceive)] NAME:PORT:PID\n");
		return 2;
	}
	t.target = target_parse(argv[optind]);
	transfer_run(&t);
	return 0;
}
