/* The yardstick: an echo server on epoll, one thread, as tight as it can be made.
 *
 * Level-triggered; one receive and one send per event; one buffer for all connections.  Only when
 * a peer does not take everything is the rest kept, and then EPOLLOUT replaces EPOLLIN. */
#include <sys/epoll.h>

#include "bench.h"

enum {
	EVENTS_MAX = 256,
	BUFFER_BYTES = 16 * 1024,
};

/* Bytes that a slow reader has not taken yet. */
struct rest {
	struct rest *next;
	int fd;
	size_t sent, bytes;
	uint8_t data[];
};

static struct rest *rests;
static uint8_t buffer[BUFFER_BYTES];

static void watch(int epoll_fd, int operation, int fd, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.fd = fd };

	if (epoll_ctl(epoll_fd, operation, fd, &event) < 0)
		err(1, "epoll_ctl");
}

static void rest_keep(int epoll_fd, int fd, const uint8_t *data, size_t bytes)
{
	struct rest *rest = malloc(sizeof(*rest) + bytes);

	if (!rest)
		err(1, "malloc");
	*rest = (struct rest){ .next = rests, .fd = fd, .bytes = bytes };
	memcpy(rest->data, data, bytes);
	rests = rest;
	watch(epoll_fd, EPOLL_CTL_MOD, fd, EPOLLOUT);
}

/* The connection is writable, or broken: then the next receive says so. */
static void rest_send(int epoll_fd, int fd)
{
	struct rest **link = &rests, *rest;
	ssize_t n;

	while ((*link)->fd != fd)
		link = &(*link)->next;
	rest = *link;
	n = send(fd, rest->data + rest->sent, rest->bytes - rest->sent,
		 MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0 && errno == EAGAIN)
		return;
	rest->sent += n < 0 ? rest->bytes : (size_t)n;
	if (rest->sent < rest->bytes)
		return;
	*link = rest->next;
	free(rest);
	watch(epoll_fd, EPOLL_CTL_MOD, fd, EPOLLIN);
}

static void echo(int epoll_fd, int fd)
{
	ssize_t n = recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT), sent;

	if (n <= 0) {
		if (n == 0 || errno != EAGAIN)
			close(fd);
		return;
	}
	sent = send(fd, buffer, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent == n)
		return;
	if (sent < 0 && errno != EAGAIN)
		close(fd);
	else
		rest_keep(epoll_fd, fd, buffer + MAX(sent, 0), (size_t)(n - MAX(sent, 0)));
}

int main(void)
{
	struct epoll_event events[EVENTS_MAX];
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC), listen_fd, n;

	raise_nofile();
	listen_fd = listen_loopback();
	watch(epoll_fd, EPOLL_CTL_ADD, listen_fd, EPOLLIN);
	while ((n = epoll_wait(epoll_fd, events, EVENTS_MAX, -1)) > 0 || errno == EINTR) {
		for (int i = 0; i < n; i++) {
			int fd = events[i].data.fd;

			if (events[i].events & EPOLLOUT)
				rest_send(epoll_fd, fd);
			else if (fd != listen_fd)
				echo(epoll_fd, fd);
			else if ((fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC)) >= 0)
				watch(epoll_fd, EPOLL_CTL_ADD, fd, EPOLLIN);
		}
	}
	err(1, "epoll_wait");
}
