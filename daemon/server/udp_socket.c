/* Makes UDP sockets.  See udp_socket.h. */
#include "udp_socket.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "parse.h"
#include "sockaddr.h"

#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif
#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif

/* By default a socket bound to a wildcard gets the datagrams of all groups that any socket of the
 * host has joined: each worker would answer them. */
void udp_socket_refuse_groups(int fd, int family)
{
	int off = 0;

	if (family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, &off, sizeof(off));
	else
		setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof(off));
}

/* Joins the group of sa on its interface; without one, on that of the route. */
static int join_group(int fd, const struct sockaddr_storage *sa)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)sa;
	struct ipv6_mreq six = { .ipv6mr_multiaddr = in6->sin6_addr,
				 .ipv6mr_interface = in6->sin6_scope_id };
	struct ip_mreqn four = { .imr_multiaddr = ((const struct sockaddr_in *)sa)->sin_addr,
				 .imr_ifindex = (int)sockaddr_interface(sa) };

	if (sa->ss_family == AF_INET6)
		return setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &six, sizeof(six));
	return setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &four, sizeof(four));
}

/* Sets the options of a socket.  Not SO_REUSEADDR: two UDP sockets with it share a port
 * even between users, and the last one gets all datagrams.  Datagrams longer than the
 * MTU are sent in fragments. */
static int configure(int fd, int family)
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

static int share(int fd)
{
	int on = 1;

	return setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) < 0 ? -errno : 0;
}

/* Makes a socket, which is not bound yet. */
static int make(int family)
{
	int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error;

	if (fd < 0)
		return -errno;
	if (configure(fd, family) == 0)
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

int udp_socket_bind(int fd, const struct sockaddr_storage *sa)
{
	if (bind(fd, (const struct sockaddr *)sa, sockaddr_size(sa)) < 0 ||
	    (sockaddr_is_multicast(sa) && join_group(fd, sa) < 0))
		return -errno;
	return 0;
}

/* As for TCP, the first socket of an address is bound without SO_REUSEPORT. */
int udp_socket_open(const struct sockaddr_storage *sa, bool first)
{
	int fd = make(sa->ss_family), rc = 0;

	if (fd < 0)
		return fd;
	if (!first)
		rc = share(fd);
	if (rc == 0)
		rc = udp_socket_bind(fd, sa);
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
	int fd = make(sa->ss_family), rc, nowhere = INT_MAX;

	if (fd < 0)
		return fd;
	rc = share(fd);
	if ((sa->ss_family == AF_INET6 && !sockaddr_is_wildcard(sa)) ||
	    setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &nowhere, sizeof(nowhere)) < 0)
		sockaddr_set_port(&at, 0);
	if (rc == 0 && bind(fd, (const struct sockaddr *)&at, sockaddr_size(&at)) < 0)
		rc = -errno;
	close(fd);
	return rc;
}

int udp_socket_prepare(const struct sockaddr_storage *sa)
{
	int rc = try_bind(sa), fd = rc < 0 ? rc : make(sa->ss_family);

	return fd < 0 ? fd : made(fd, share(fd));
}

const char *udp_socket_group_advice(int error, const struct sockaddr_storage *sa)
{
	switch (error) {
	case ENODEV:
		if (sockaddr_interface(sa))
			return sa->ss_family == AF_INET
				       ? "; that interface has no IPv4 (ip address add ...)"
				       : "; that interface has no IPv6";
		return "; no route says by which device the group is reached (ip route add "
		       "239.0.0.0/8 dev DEV, or its own network)";
	case ENOBUFS:
		return "; the host limits groups (sysctl net.ipv4.igmp_max_memberships for a "
		       "socket, net.core.optmem_max for all of them)";
	default:
		return "";
	}
}
