/* Greedy clients of an echo server: each sends as much as goes, and reads whatever comes back, from
 * the start until its standard input ends.  Then it prints the bytes that came back, and the time.
 */
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>

#include "bench.h"

enum { PIECE_BYTES = 256 * 1024, CONNECTIONS_MAX = 64, EVENTS_MAX = 64 };

static uint8_t piece[PIECE_BYTES];

static uint64_t exchange(int fd, uint32_t events)
{
	uint64_t received = 0;
	ssize_t n;

	while ((events & EPOLLIN) && (n = recv(fd, piece, sizeof(piece), 0)) > 0)
		received += (uint64_t)n;
	if ((events & EPOLLOUT) && send(fd, piece, sizeof(piece), MSG_NOSIGNAL) < 0 &&
	    errno != EAGAIN)
		err(1, "send");
	return received;
}

int main(int argc, char **argv)
{
	struct epoll_event events[EVENTS_MAX];
	uint64_t received = 0, start_ns = clock_ns();
	struct pollfd input = { .events = POLLIN };
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	uint32_t count;
	uint16_t port;

	if (argc != 3) {
		fprintf(stderr, "usage: greedy CONNECTIONS PORT\n");
		return 2;
	}
	count = (uint32_t)option_uint("CONNECTIONS", argv[1], 0, CONNECTIONS_MAX);
	port = (uint16_t)option_uint("PORT", argv[2], 1, UINT16_MAX);
	for (uint32_t i = 0; i < count; i++) {
		int fd = connect_loopback(port);
		struct epoll_event event = { .events = EPOLLIN | EPOLLOUT, .data.fd = fd };

		fcntl(fd, F_SETFL, O_NONBLOCK);
		if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
			err(1, "epoll_ctl");
	}
	while (poll(&input, 1, 0) == 0) {
		int n = epoll_wait(epoll_fd, events, EVENTS_MAX, 100);

		for (int i = 0; i < n; i++)
			received += exchange(events[i].data.fd, events[i].events);
	}
	printf("{\"bytes\":%ju,\"elapsed_ns\":%ju}\n", (uintmax_t)received,
	       (uintmax_t)(clock_ns() - start_ns));
	return 0;
}
