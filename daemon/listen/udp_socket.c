/* Makes UDP sockets.  See udp_socket.h. */
#include "udp_socket.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "parse.h"
#include "sockaddr.h"

/* Joins the group of sa, and refuses datagrams to groups that only other sockets have joined. */
static int join_group(int fd, const struct sockaddr_storage *sa)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)sa;
	struct ipv6_mreq six = { .ipv6mr_multiaddr = in6->sin6_addr,
				 .ipv6mr_interface = in6->sin6_scope_id };
	struct ip_mreqn four = { .imr_multiaddr = ((const struct sockaddr_in *)sa)->sin_addr };
	int off = 0;

	if (sa->ss_family == AF_INET6) {
#ifdef IPV6_MULTICAST_ALL
		setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, &off, sizeof(off));
#endif
		return setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &six, sizeof(six));
	}
	setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof(off));
	return setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &four, sizeof(four));
}

/* Sets the options of a socket.  Not SO_REUSEADDR: two UDP sockets with it share a port even
 * between users, and the last one gets all datagrams.  Datagrams longer than the MTU are sent in
 * fragments. */
static int configure(int fd, int family)
{
	int bytes = UDP_SOCKET_BUFFER, on = 1, never = IP_PMTUDISC_DONT;

	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	if (family == AF_INET)
		return setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &never, sizeof(never));
	never = IPV6_PMTUDISC_DONT;
	setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &never, sizeof(never));
	return setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
}

/* As for TCP, the first socket of an address is bound without SO_REUSEPORT. */
int udp_socket_open(const struct sockaddr_storage *sa, bool first)
{
	int fd = socket(sa->ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
	int error;

	if (fd < 0)
		return -errno;
	if (configure(fd, sa->ss_family) == 0 &&
	    (first || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) == 0) &&
	    bind(fd, (const struct sockaddr *)sa, sockaddr_size(sa)) == 0 &&
	    (!first || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) == 0) &&
	    (!sockaddr_is_multicast(sa) || join_group(fd, sa) == 0))
		return fd;
	error = errno;
	close(fd);
	return -error;
}

const char *udp_socket_advice(int error)
{
	switch (error) {
	case EADDRINUSE:
		return "; another program has that port (as root, ss -lnup shows which), choose "
		       "another port";
	case EADDRNOTAVAIL:
		return "; this host does not have that address (ip address shows which it has)";
	case EACCES:
		return "; ports below 1024 need CAP_NET_BIND_SERVICE";
	case ENODEV:
		return "; no route says by which device the group is reached (ip route add "
		       "239.0.0.0/8 dev DEV, or its own network)";
	case ENOBUFS:
		return "; too many groups (sysctl net.ipv4.igmp_max_memberships)";
	default:
		return "";
	}
}
