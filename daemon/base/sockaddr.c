/* Socket addresses: comparison, parts of them.  See sockaddr.h. */
#include "sockaddr.h"

#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/un.h>

void *sockaddr_host(const struct sockaddr_storage *sa)
{
	if (sa->ss_family == AF_INET6)
		return &((struct sockaddr_in6 *)sa)->sin6_addr;
	return &((struct sockaddr_in *)sa)->sin_addr;
}

uint16_t sockaddr_port(const struct sockaddr_storage *sa)
{
	if (sa->ss_family == AF_INET6)
		return ntohs(((const struct sockaddr_in6 *)sa)->sin6_port);
	if (sa->ss_family == AF_INET)
		return ntohs(((const struct sockaddr_in *)sa)->sin_port);
	return 0;
}

void sockaddr_set_port(struct sockaddr_storage *sa, uint16_t port)
{
	if (sa->ss_family == AF_INET6)
		((struct sockaddr_in6 *)sa)->sin6_port = htons(port);
	else if (sa->ss_family == AF_INET)
		((struct sockaddr_in *)sa)->sin_port = htons(port);
}

uint32_t sockaddr_interface(const struct sockaddr_storage *sa)
{
	return sa->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)sa)->sin6_scope_id : 0;
}

bool sockaddr_is_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	if (a->ss_family != b->ss_family || sockaddr_port(a) != sockaddr_port(b) ||
	    sockaddr_interface(a) != sockaddr_interface(b))
		return false;
	if (a->ss_family == AF_UNIX)
		return memcmp(((const struct sockaddr_un *)a)->sun_path,
			      ((const struct sockaddr_un *)b)->sun_path,
			      sizeof(((struct sockaddr_un *)0)->sun_path)) == 0;
	return memcmp(sockaddr_host(a), sockaddr_host(b),
		      a->ss_family == AF_INET6 ? sizeof(struct in6_addr)
					       : sizeof(struct in_addr)) == 0;
}

bool sockaddr_is_multicast(const struct sockaddr_storage *sa)
{
	if (sa->ss_family == AF_INET6)
		return IN6_IS_ADDR_MULTICAST(&((const struct sockaddr_in6 *)sa)->sin6_addr);
	return sa->ss_family == AF_INET &&
	       IN_MULTICAST(ntohl(((const struct sockaddr_in *)sa)->sin_addr.s_addr));
}

bool sockaddr_is_wildcard(const struct sockaddr_storage *sa)
{
	if (sa->ss_family == AF_INET6)
		return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)sa)->sin6_addr);
	return sa->ss_family == AF_INET &&
	       ((const struct sockaddr_in *)sa)->sin_addr.s_addr == INADDR_ANY;
}

bool sockaddr_fd_is_local(int fd)
{
	int family = AF_UNSPEC;
	socklen_t len = sizeof(family);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len) == 0 && family == AF_UNIX;
}

uint16_t sockaddr_fd_port(int fd)
{
	struct sockaddr_storage sa = { .ss_family = AF_UNSPEC };
	socklen_t len = sizeof(sa);

	return getsockname(fd, (struct sockaddr *)&sa, &len) == 0 ? sockaddr_port(&sa) : 0;
}

socklen_t sockaddr_size(const struct sockaddr_storage *sa)
{
	const struct sockaddr_un *un = (const struct sockaddr_un *)sa;

	if (sa->ss_family == AF_INET)
		return sizeof(struct sockaddr_in);
	if (sa->ss_family == AF_INET6)
		return sizeof(struct sockaddr_in6);
	if (un->sun_path[0])
		return sizeof(*un);
	/* An abstract name is ended by the address length, not by a NUL. */
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(un->sun_path + 1));
}

struct in6_addr sockaddr_map_ipv4(const struct in_addr *address)
{
	struct in6_addr mapped = { 0 };

	mapped.s6_addr[10] = mapped.s6_addr[11] = 0xff;
	memcpy(&mapped.s6_addr[12], address, sizeof(*address));
	return mapped;
}

struct in6_addr sockaddr_mapped(const struct sockaddr_storage *sa)
{
	if (sa->ss_family == AF_INET)
		return sockaddr_map_ipv4(&((const struct sockaddr_in *)sa)->sin_addr);
	if (sa->ss_family == AF_INET6)
		return ((const struct sockaddr_in6 *)sa)->sin6_addr;
	return (struct in6_addr){ 0 };
}
