/* Listening sockets: TCP, UDP, Unix with a file, Unix with an abstract name.  See socket.h. */
#include "socket.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "log.h"
#include "parse.h"
#include "sockaddr.h"
#include "watchdog.h"

/* ---- Sockets of IP ---- */

#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif
#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif

/* By default a socket bound to a wildcard gets the datagrams of all groups that any socket of the
 * host has joined: each worker would answer them. */
static void udp_socket_refuse_groups(int fd, int family)
{
	int off = 0;

	if (family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, &off, sizeof(off));
	else
		setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof(off));
}

/* Sets the options of a UDP socket.  Not SO_REUSEADDR: two UDP sockets with it share a port
 * even between users, and the last one gets all datagrams.  Datagrams longer than the
 * MTU are sent in fragments. */
static int configure_udp(int fd, int family)
{
	int bytes = UDP_SOCKET_BUFFER, on = 1, never = IP_PMTUDISC_DONT;

	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	udp_socket_refuse_groups(fd, family);
	if (family == AF_INET)
		return setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &never, sizeof(never));
	never = IPV6_PMTUDISC_DONT;
	setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &never, sizeof(never));
	return setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
}

/* Connections inherit TCP_NODELAY from the listening socket. */
static int configure_tcp(int fd, int family)
{
	int on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	return 0;
}

static int share(int fd)
{
	int on = 1;

	return setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) < 0 ? -errno : 0;
}

/* Makes a socket of that type, which is not bound yet. */
static int make(int family, int type)
{
	int fd = socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error;

	if (fd < 0)
		return -errno;
	if ((type == SOCK_DGRAM ? configure_udp(fd, family) : configure_tcp(fd, family)) == 0)
		return fd;
	error = errno;
	close(fd);
	return -error;
}

/* Returns fd, or closes it and returns rc if that is -errno. */
static int made(int fd, int rc)
{
	if (rc < 0)
		close(fd);
	return rc < 0 ? rc : fd;
}

static int bind_to(int fd, const struct sockaddr_storage *sa)
{
	return bind(fd, (const struct sockaddr *)sa, sockaddr_size(sa)) < 0 ? -errno : 0;
}

/* Makes a socket bound to sa.  first: binds without
 * SO_REUSEPORT, and so fails if the address is in use, even by another nbserved; the workers' other
 * sockets then share it.  For TCP the kernel looks here only for sockets that listen:
 * socket_listen() asks it again.  Returns the descriptor or -errno. */
static int open_and_bind(const struct sockaddr_storage *sa, int type, bool first)
{
	int fd = make(sa->ss_family, type), rc = 0;

	if (fd < 0)
		return fd;
	if (!first)
		rc = share(fd);
	if (rc == 0)
		rc = bind_to(fd, sa);
	if (rc == 0 && first)
		rc = share(fd);
	return made(fd, rc);
}

/* Could a socket that joins others be bound to sa?  The one that tries is bound on an interface
 * that does not exist, and so receives nothing; without SO_BINDTOIFINDEX (Linux 5.0), or for one
 * address of IPv6, to another port. */
static int try_bind(const struct sockaddr_storage *sa)
{
	struct sockaddr_storage at = *sa;
	int fd = make(sa->ss_family, SOCK_DGRAM), rc, nowhere = INT_MAX;

	if (fd < 0)
		return fd;
	rc = share(fd);
	if ((sa->ss_family == AF_INET6 && !sockaddr_is_wildcard(sa)) ||
	    setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &nowhere, sizeof(nowhere)) < 0)
		sockaddr_set_port(&at, 0);
	if (rc == 0)
		rc = bind_to(fd, &at);
	close(fd);
	return rc;
}

/* Makes a socket that socket_start() will bind to sa, which other sockets of this process may
 * use already: from then on the kernel gives it some of their clients.  Conditions that would make
 * the bind fail are reported now.  Returns the descriptor or -errno. */
static int udp_socket_prepare(const struct sockaddr_storage *sa)
{
	int rc = try_bind(sa), fd = rc < 0 ? rc : make(sa->ss_family, SOCK_DGRAM);

	return fd < 0 ? fd : made(fd, share(fd));
}

enum { BIND_PAUSE_NS = 10 * NS_PER_MS };

/* ---- An address in use ---- */

struct address_wait {
	int type;
	bool logged;
	uint64_t end_ns;
};

/* Waits before the next attempt; false: give up. */
static bool wait_for_address(struct address_wait *w, const struct sockaddr_storage *sa)
{
	static const struct timespec pause = { .tv_nsec = BIND_PAUSE_NS };
	uint64_t now = clock_ns();
	char text[ADDRESS_TEXT_MAX];

	if (now >= w->end_ns)
		return false;
	if (!w->logged)
		log_info("bind %s: in use; waiting until it is free", format_sockaddr(sa, text));
	w->logged = true;
	watchdog_slice(now);
	nanosleep(&pause, NULL);
	return true;
}

static int refuse_bind(const struct sockaddr_storage *sa, int error, const char *advice,
		       struct reason *reason)
{
	char text[ADDRESS_TEXT_MAX];

	return reason_set(reason, -error, "bind %s: %s%s", format_sockaddr(sa, text),
			  strerror(error), advice);
}

/* Any socket of the port may be in the way: also a connection to elsewhere that has it as its local
 * port, and one that ended less than a minute ago (TIME-WAIT). */
static int refuse_port(const struct sockaddr_storage *sa, int type, struct reason *reason)
{
	bool datagrams = type == SOCK_DGRAM;
	char advice[160];

	snprintf(advice, sizeof(advice),
		 "; %s (as root, `ss -%canp sport = :%u` shows which), choose another port",
		 datagrams ? "another socket has that port"
			   : "a program listens there, or a connection has that port",
		 datagrams ? 'u' : 't', sockaddr_port(sa));
	return refuse_bind(sa, EADDRINUSE, advice, reason);
}

/* ---- IP: a socket for each worker, over which the kernel spreads its clients ---- */

/* Advice to append to an error of ip_bind(); "": none. */
static const char *ip_advice(int error)
{
	switch (error) {
	case EADDRNOTAVAIL:
		return "; this host does not have that address (ip address shows which it has)";
	case EACCES:
		return "; ports below 1024 need CAP_NET_BIND_SERVICE";
	default:
		return "";
	}
}

static int ip_bind(struct sockaddr_storage *sa, struct worker_socket *sockets, unsigned count,
		   bool join, bool late, struct address_wait *wait, struct reason *reason)
{
	for (unsigned i = 0; i < count; i++) {
		socklen_t len = sizeof(*sa);
		bool first = i == 0 && !join;
		int fd;

		do
			fd = late ? udp_socket_prepare(sa) : open_and_bind(sa, wait->type, first);
		while (fd == -EADDRINUSE && wait_for_address(wait, sa));
		if (fd == -EADDRINUSE)
			return refuse_port(sa, wait->type, reason);
		if (fd < 0)
			return refuse_bind(sa, -fd, ip_advice(-fd), reason);
		sockets[i].fd = fd;
		if (i == 0 && !sockaddr_port(sa))
			getsockname(fd, (struct sockaddr *)sa, &len); /* the actual port, if 0 */
	}
	return 0;
}

/* ---- Unix: one socket, from which all workers accept ---- */

static int abstract_open(const struct sockaddr_storage *sa, struct reason *reason)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error;

	if (fd < 0)
		return reason_set(reason, -errno, "socket: %s", strerror(errno));
	if (bind(fd, (const struct sockaddr *)sa, sockaddr_size(sa)) == 0)
		return fd;
	error = errno;
	close(fd);
	return refuse_bind(sa, error,
			   error == EADDRINUSE ? "; another program has that name (as root, `ss "
						 "-lxp` shows which), choose another"
					       : "",
			   reason);
}

static int unix_open(const struct sockaddr_storage *sa, struct unix_socket *ret_file,
		     struct reason *reason)
{
	const char *path = ((const struct sockaddr_un *)sa)->sun_path;
	int rc;

	if (!path[0])
		return abstract_open(sa, reason);
	rc = unix_socket_open(path, (gid_t)-1, 0, ret_file, reason);
	return rc < 0 ? rc : ret_file->fd;
}

static int unix_bind(const struct sockaddr_storage *sa, struct worker_socket *sockets,
		     unsigned count, struct address_wait *wait, struct unix_socket *ret_file,
		     struct reason *reason)
{
	int fd;

	do
		fd = unix_open(sa, ret_file, reason);
	while (fd == -EADDRINUSE && wait_for_address(wait, sa));
	if (fd < 0)
		return fd;
	for (unsigned i = 0; i < count; i++) {
		sockets[i].shared = count > 1;
		sockets[i].fd = i == 0 ? fd : fcntl(fd, F_DUPFD_CLOEXEC, 0);
		if (sockets[i].fd < 0) {
			int error = errno;

			unix_socket_remove(ret_file);
			return reason_set(reason, -error, "dup: %s", strerror(error));
		}
	}
	return 0;
}

/* ---- All ---- */

int socket_bind(const struct sockaddr_storage *wanted, int type, struct worker_socket *sockets,
		unsigned count, bool join, uint64_t end_ns, struct bound *ret_bound,
		struct reason *reason)
{
	struct address_wait wait = { .type = type, .end_ns = end_ns };
	struct sockaddr_storage sa = *wanted;
	bool late = join && type == SOCK_DGRAM;
	int rc;

	if (sa.ss_family == AF_UNIX)
		rc = unix_bind(&sa, sockets, count, &wait, &ret_bound->file, reason);
	else
		rc = ip_bind(&sa, sockets, count, join, late, &wait, reason);
	ret_bound->wanted = *wanted;
	ret_bound->sa = sa;
	for (unsigned i = 0; late && i < count; i++)
		sockets[i].late = &ret_bound->sa;
	if (rc == 0)
		format_sockaddr(&sa, ret_bound->text);
	return rc;
}

int socket_start(int fd, const struct sockaddr_storage *late)
{
	int rc = late ? bind_to(fd, late) : 0;

	if (rc == 0 && listen(fd, WORKER_BACKLOG) < 0 && errno != EOPNOTSUPP)
		rc = -errno;
	return rc;
}

/* The kernel looks for conflicts in listen(2), too, and there it knows the sockets that another
 * process has bound at the same time. */
int socket_listen(int fd, bool first, const struct sockaddr_storage *sa, uint64_t end_ns,
		  struct reason *reason)
{
	struct address_wait wait = { .type = SOCK_STREAM, .end_ns = end_ns };
	bool guard = first && sa->ss_family != AF_UNIX;
	char text[ADDRESS_TEXT_MAX];
	int on = 1, off = 0, rc;

	if (guard)
		setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &off, sizeof(off));
	do
		rc = socket_start(fd, NULL);
	while (rc == -EADDRINUSE && wait_for_address(&wait, sa));
	if (guard && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) < 0 && rc == 0)
		rc = -errno;
	if (rc == -EADDRINUSE)
		return refuse_port(sa, SOCK_STREAM, reason);
	return rc < 0 ? reason_set(reason, rc, "listen %s: %s", format_sockaddr(sa, text),
				   strerror(-rc))
		      : 0;
}

/* Connections inherit all of it from the listening socket, so it costs none of them a system call.
 * With TCP_USER_TIMEOUT the kernel counts no probes. */
void socket_set_keepalive(int fd, uint64_t ns)
{
	int on = ns > 0, timeout_ms = (int)(ns / NS_PER_MS);
	int idle_s = (int)MAX(ns / 2 / NS_PER_S, UINT64_C(1));
	int interval_s = (int)MAX(ns / 8 / NS_PER_S, UINT64_C(1));

	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
	if (!on)
		return;
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
}

int socket_adopt(int fd, int family, bool join)
{
	int flags = fcntl(fd, F_GETFL), on = 1;

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	if (family == AF_UNIX)
		return 0;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	udp_socket_refuse_groups(fd, family);
	if (join && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) < 0)
		return -errno;
	return 0;
}
