/* See route.h. */
#include "route.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util.h"

enum { ROUTE_MS = 3000 };

/* Waits until the connection is made.  0 or -errno. */
static int await(int fd)
{
	uint64_t end_ns = clock_ns() + ROUTE_MS * (uint64_t)NS_PER_MS, now_ns;
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	socklen_t bytes = sizeof(int);
	int error = 0;

	while ((now_ns = clock_ns()) < end_ns)
		if (poll(&p, 1, (int)((end_ns - now_ns) / NS_PER_MS) + 1) > 0)
			return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) < 0 ? -errno
											: -error;
	return -ETIMEDOUT;
}

static int connect_to(const struct addrinfo *to, char source[ROUTE_SOURCE_BYTES])
{
	int fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), rc;
	struct sockaddr_storage own;
	socklen_t bytes = sizeof(own);

	if (fd < 0)
		return -errno;
	rc = connect(fd, to->ai_addr, to->ai_addrlen) < 0 ? -errno : 0;
	if (rc == -EINPROGRESS)
		rc = await(fd);
	if (rc == 0 && getsockname(fd, (struct sockaddr *)&own, &bytes) < 0)
		rc = -errno;
	if (rc == 0 && getnameinfo((struct sockaddr *)&own, bytes, source, ROUTE_SOURCE_BYTES, NULL,
				   0, NI_NUMERICHOST))
		rc = -EINVAL;
	close(fd);
	return rc;
}

int route_try(const char *address, const char *port, char source[ROUTE_SOURCE_BYTES])
{
	const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
					.ai_socktype = SOCK_STREAM };
	struct addrinfo *to;
	int rc;

	if (getaddrinfo(address, port, &hints, &to))
		return -EINVAL;
	rc = connect_to(to, source);
	freeaddrinfo(to);
	return rc;
}
