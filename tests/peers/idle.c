/* Opens connections to an echo server and leaves them idle.
 *
 * Says "open" when all are; for every line on standard input each connection must answer 64 bytes,
 * and then it says "answered N"; ends with standard input. */
#include <getopt.h>

#include "bench.h"

enum { MESSAGE_BYTES = 64 };

static void all_answer(const int *fds, uint32_t count)
{
	char message[MESSAGE_BYTES], answer[MESSAGE_BYTES];

	for (uint32_t i = 0; i < count; i++) {
		snprintf(message, sizeof(message), "%0*u", MESSAGE_BYTES - 1, i);
		if (send(fds[i], message, sizeof(message), MSG_NOSIGNAL) != sizeof(message))
			err(1, "connection %u: send", i);
	}
	for (uint32_t i = 0; i < count; i++) {
		snprintf(message, sizeof(message), "%0*u", MESSAGE_BYTES - 1, i);
		if (recv(fds[i], answer, sizeof(answer), MSG_WAITALL) != sizeof(answer))
			err(1, "connection %u: receive", i);
		if (memcmp(message, answer, sizeof(message)) != 0)
			errx(1, "connection %u: received what was not sent", i);
	}
}

int main(int argc, char **argv)
{
	const struct timeval timeout = { .tv_sec = 10 };
	const struct linger reset = { .l_onoff = 1 };
	char line[16];
	uint32_t count;
	uint16_t port;
	int *fds;

	if (argc != 3) {
		fprintf(stderr, "usage: idle PORT CONNECTIONS\n");
		return 2;
	}
	port = (uint16_t)option_uint("port", argv[1], 1, UINT16_MAX);
	count = (uint32_t)option_uint("connections", argv[2], 1, 1000 * 1000);
	fds = allocate(count, sizeof(*fds));
	raise_nofile();
	for (uint32_t i = 0; i < count; i++) {
		fds[i] = connect_loopback(port);
		/* A reset leaves no ports in TIME_WAIT. */
		setsockopt(fds[i], SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		setsockopt(fds[i], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	}
	for (puts("open"); fflush(stdout), fgets(line, sizeof(line), stdin);) {
		all_answer(fds, count);
		printf("answered %u\n", count);
	}
	free(fds);
	return 0;
}
