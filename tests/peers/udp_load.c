/* Load of datagrams on the loopback, or to the server at -a, of one thread; the result is a line of
 * JSON.
 *
 * `echo`: peers of an echo server, each with an address of its own in the server's /8 (127.1.0.0
 * and up; this host must have them) but all of one socket, so that a call moves many: what comes
 * back is sent again.  Datagrams are sockperf's messages. `send`: one way, over sockets that the
 * caller has connected (-F), with iperf3's numbers in them, as many as go, merged by UDP_SEGMENT if
 * -g says how many. */
#include <getopt.h>
#include <netinet/udp.h>
#include <poll.h>

#include "bench.h"
#include "histogram.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

enum {
	BATCH = 64,
	DATAGRAM_MAX = 65536,
	FLOWS_MAX = 64,
	HEADER = 14, /* of sockperf */
	STAMP = 16,  /* where the time stands */
	SILENCE_MS = 1000,
};

struct load {
	struct in_addr server;
	uint16_t port;
	uint32_t peers, window, size, merged;
	uint64_t ms;
	int flows[FLOWS_MAX];
	unsigned flow_count;
};

/* A struct cmsghdr, which no field of a struct may follow, and its data. */
struct control {
	size_t bytes;
	int level, type;
	struct in_pktinfo info;
};
_Static_assert(offsetof(struct control, info) == CMSG_LEN(0), "as in struct cmsghdr");

static struct mmsghdr messages[BATCH];
static struct iovec iov[BATCH];
static struct sockaddr_in names[BATCH];
static struct control controls[BATCH];
static uint8_t buffers[BATCH][DATAGRAM_MAX];
static struct histogram latency;

/* ---- A socket with many addresses ---- */

static int open_wildcard(void)
{
	struct sockaddr_in sa = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		err(1, "socket");
	set_option(fd, SOL_SOCKET, SO_RCVBUF, 4 << 20);
	set_option(fd, IPPROTO_IP, IP_PKTINFO, 1);
	return fd;
}

/* Message i goes to the server, from the n-th peer. */
static void address(const struct load *load, unsigned i, uint32_t n)
{
	struct in_addr from = { htonl((ntohl(load->server.s_addr) & 0xff000000) + 0x10000 + n) };

	names[i] = (struct sockaddr_in){ .sin_family = AF_INET,
					 .sin_port = htons(load->port),
					 .sin_addr = load->server };
	controls[i] = (struct control){
		.bytes = CMSG_LEN(sizeof(struct in_pktinfo)),
		.level = IPPROTO_IP,
		.type = IP_PKTINFO,
		.info = { .ipi_spec_dst = from },
	};
}

static void shape(unsigned i, size_t bytes)
{
	iov[i] = (struct iovec){ buffers[i], bytes };
	messages[i].msg_hdr = (struct msghdr){ .msg_name = &names[i],
					       .msg_namelen = sizeof(names[i]),
					       .msg_iov = &iov[i],
					       .msg_iovlen = 1,
					       .msg_control = &controls[i],
					       .msg_controllen = sizeof(controls[i]) };
}

/* A ping that wants a pong. */
static void fill(unsigned i, uint32_t size)
{
	static const uint8_t head[HEADER] = { [7] = 1, [9] = 3 };
	uint32_t length = htonl(size);

	memset(buffers[i], 'x', size);
	memcpy(buffers[i], head, sizeof(head));
	memcpy(buffers[i] + 10, &length, sizeof(length));
}

static void send_batch(int fd, unsigned count)
{
	int sent;

	for (unsigned at = 0; at < count; at += (unsigned)MAX(sent, 1)) {
		sent = sendmmsg(fd, messages + at, count - at, 0);
		if (sent < 0)
			err(1, "sendmmsg");
	}
}

/* ---- echo ---- */

static uint64_t echo_prime(const struct load *load, int fd)
{
	uint64_t now_ns = clock_ns(), all = (uint64_t)load->peers * load->window;

	for (uint64_t n = 0; n < all;) {
		unsigned count = 0;

		for (; count < BATCH && n < all; count++, n++) {
			fill(count, load->size);
			memcpy(buffers[count] + STAMP, &now_ns, sizeof(now_ns));
			shape(count, load->size);
			address(load, count, (uint32_t)(n % load->peers));
		}
		send_batch(fd, count);
	}
	return all;
}

/* Takes what has come, and sends it again.  The number; 0: nothing comes any more. */
static unsigned echo_turn(const struct load *load, int fd, bool again)
{
	struct pollfd in = { .fd = fd, .events = POLLIN };
	uint64_t now_ns, sent_ns;
	int count;

	for (unsigned i = 0; i < BATCH; i++)
		shape(i, DATAGRAM_MAX);
	count = recvmmsg(fd, messages, BATCH, MSG_DONTWAIT, NULL);
	if (count < 0 && errno == EAGAIN) {
		if (poll(&in, 1, SILENCE_MS) <= 0)
			return 0;
		count = recvmmsg(fd, messages, BATCH, MSG_DONTWAIT, NULL);
	}
	if (count <= 0)
		err(1, "recvmmsg");
	now_ns = clock_ns();
	for (int i = 0; i < count; i++) {
		if (messages[i].msg_len != load->size)
			errx(1, "received %u bytes of %u", messages[i].msg_len, load->size);
		memcpy(&sent_ns, buffers[i] + STAMP, sizeof(sent_ns));
		histogram_add(&latency, now_ns - sent_ns, 1);
		memcpy(buffers[i] + STAMP, &now_ns, sizeof(now_ns));
		buffers[i][9] = 3; /* the server's is 2 */
		iov[i].iov_len = load->size;
		controls[i].info.ipi_ifindex = 0;
	}
	if (again)
		send_batch(fd, (unsigned)count);
	return (unsigned)count;
}

static void echo(const struct load *load)
{
	static const double quantiles[] = { 0.5, 0.99 };
	uint64_t sent, answered = 0, start_ns = clock_ns(), end_ns, open;
	struct histogram_sum sum = { 0 };
	int fd = open_wildcard();

	end_ns = start_ns + load->ms * NS_PER_MS;
	open = sent = echo_prime(load, fd);
	while (open) {
		bool again = clock_ns() < end_ns;
		unsigned count = echo_turn(load, fd, again);

		answered += count;
		if (again)
			sent += count;
		else
			open -= MIN((uint64_t)count, open);
		if (count == 0) {
			open = again ? echo_prime(load, fd) : 0;
			sent += open;
		}
	}
	histogram_merge(&sum, &latency);
	printf("{\"sent\":%ju,\"answered\":%ju,\"lost\":%ju,\"seconds\":%.3f", (uintmax_t)sent,
	       (uintmax_t)answered, (uintmax_t)(sent - answered),
	       (double)(clock_ns() - start_ns) / NS_PER_S);
	printf(",\"p50_us\":%.1f,\"p99_us\":%.1f}\n",
	       (double)histogram_quantile(&sum, quantiles[0]) / NS_PER_US,
	       (double)histogram_quantile(&sum, quantiles[1]) / NS_PER_US);
}

/* ---- send ---- */

static void number(uint8_t *to, uint32_t n, uint64_t now_ns)
{
	const uint32_t head[] = { htonl((uint32_t)(now_ns / NS_PER_S)),
				  htonl((uint32_t)(now_ns % NS_PER_S / NS_PER_US)), htonl(n) };

	memcpy(to, head, sizeof(head));
}

static void send_one_way(const struct load *load)
{
	uint32_t each = load->merged ? load->merged : 1, numbers[FLOWS_MAX] = { 0 };
	uint64_t start_ns = clock_ns(), end_ns = start_ns + load->ms * NS_PER_MS, sent = 0, now_ns;

	for (unsigned f = 0; f < load->flow_count && load->merged; f++)
		set_option(load->flows[f], SOL_UDP, UDP_SEGMENT, (int)load->size);
	memset(buffers[0], 'x', DATAGRAM_MAX);
	for (unsigned f = 0; (now_ns = clock_ns()) < end_ns; f = (f + 1) % load->flow_count) {
		size_t bytes = (size_t)each * load->size;

		for (uint32_t i = 0; i < each; i++)
			number(buffers[0] + (size_t)i * load->size, ++numbers[f], now_ns);
		if (send(load->flows[f], buffers[0], bytes, 0) != (ssize_t)bytes)
			err(1, "send");
		sent += each;
	}
	printf("{\"sent\":%ju,\"seconds\":%.3f,\"flows\":[", (uintmax_t)sent,
	       (double)(clock_ns() - start_ns) / NS_PER_S);
	for (unsigned f = 0; f < load->flow_count; f++)
		printf("%s%u", f ? "," : "", numbers[f]);
	printf("]}\n");
}

/* ---- Options ---- */

static void usage(void)
{
	fprintf(stderr,
		"usage: udp_load [-a ADDRESS] [-p PORT] [-P PEERS] [-w WINDOW] [-s BYTES] [-t MS]\n"
		"                [-g MERGED] [-F DESCRIPTOR]... echo|send\n");
	exit(2);
}

static void option_take(struct load *load, int option)
{
	switch (option) {
	case 'a':
		if (inet_pton(AF_INET, optarg, &load->server) != 1)
			errx(2, "-a: expected an IPv4 address, got '%s'", optarg);
		break;
	case 'p':
		load->port = (uint16_t)option_uint("-p", optarg, 1, UINT16_MAX);
		break;
	case 'P':
		load->peers = (uint32_t)option_uint("-P", optarg, 1, 10000000);
		break;
	case 'w':
		load->window = (uint32_t)option_uint("-w", optarg, 1, BATCH);
		break;
	case 's':
		load->size = (uint32_t)option_uint("-s", optarg, STAMP + 8, 60000);
		break;
	case 't':
		load->ms = option_uint("-t", optarg, 1, 600 * 1000);
		break;
	case 'g':
		load->merged = (uint32_t)option_uint("-g", optarg, 1, 64);
		break;
	case 'F':
		if (load->flow_count == FLOWS_MAX)
			errx(2, "-F: too many");
		load->flows[load->flow_count++] = (int)option_uint("-F", optarg, 0, INT32_MAX);
		break;
	default:
		usage();
	}
}

int main(int argc, char **argv)
{
	static struct load load = { .peers = 1, .window = 1, .size = 64, .ms = 500 };
	int option;

	load.server.s_addr = htonl(INADDR_LOOPBACK);
	while ((option = getopt(argc, argv, "a:p:P:w:s:t:g:F:")) != -1)
		option_take(&load, option);
	if (optind + 1 != argc || (uint64_t)load.merged * load.size > UINT16_MAX - 28)
		usage();
	if (strcmp(argv[optind], "echo") == 0)
		echo(&load);
	else if (strcmp(argv[optind], "send") == 0 && load.flow_count)
		send_one_way(&load);
	else
		usage();
	return 0;
}
