/* The interface that has an address: of IPv4 by SIOCGIFCONF, of IPv6
 * by /proc/net/if_inet6.  See nic.h. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "nic.h"
#include "sockaddr.h"

enum { ADDRESSES_MAX = 256 }; /* that are looked at */

struct search {
	const struct nic_host *host;
	int fd; /* a socket, for its ioctl() */
	const void *wanted;
	size_t bytes;
	bool all; /* a wildcard: of each interface that is up, but for loopback */
	struct nic_names *to;
	bool found;
};

static bool is_up_and_no_loopback(int fd, const char *name)
{
	struct ifreq request = { 0 };

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	return ioctl(fd, SIOCGIFFLAGS, &request) == 0 && request.ifr_flags & IFF_UP &&
	       !(request.ifr_flags & IFF_LOOPBACK);
}

/* The interface has the address. */
static void look_at(struct search *s, const char *name, const void *address)
{
	if (s->all ? !is_up_and_no_loopback(s->fd, name)
		   : memcmp(address, s->wanted, s->bytes) != 0)
		return;
	nic_names_put(s->host, name, s->to);
	s->found = true;
}

static void search_ipv4(struct search *s)
{
	struct ifreq list[ADDRESSES_MAX];
	struct ifconf all = { .ifc_len = sizeof(list), .ifc_req = list };

	if (ioctl(s->fd, SIOCGIFCONF, &all) < 0)
		return;
	for (size_t i = 0; i < (size_t)all.ifc_len / sizeof(list[0]); i++) {
		const struct sockaddr_in *sa = (const void *)&list[i].ifr_addr;

		list[i].ifr_name[IFNAMSIZ - 1] = '\0';
		/* cuts the number of an alias, `eth0:1` */
		list[i].ifr_name[strcspn(list[i].ifr_name, ":")] = '\0';
		look_at(s, list[i].ifr_name, &sa->sin_addr);
	}
}

/* "fe80000000000000021122fffe334455 02 40 20 80     eth1": address, index, length, scope, flags. */
static void search_ipv6(struct search *s)
{
	char path[256], line[128], digits[33], name[IF_NAMESIZE];
	unsigned lines = 0;
	FILE *from;

	snprintf(path, sizeof(path), "%s/proc/self/net/if_inet6", s->host->root);
	from = fopen(path, "re");
	while (from && lines++ < ADDRESSES_MAX && fgets(line, sizeof(line), from)) {
		struct in6_addr address = { 0 };

		if (sscanf(line, "%32s %*s %*s %*s %*s %15s", digits, name) != 2)
			continue;
		for (unsigned i = 0; i < sizeof(address.s6_addr); i++)
			sscanf(digits + 2 * (size_t)i, "%2hhx", &address.s6_addr[i]);
		look_at(s, name, &address);
	}
	if (from)
		fclose(from);
}

void nic_names_add(const struct nic_host *host, const struct sockaddr_storage *sa,
		   struct nic_names *to)
{
	const struct sockaddr_in *ipv4 = (const void *)sa;
	bool is_ipv6 = sa->ss_family == AF_INET6;
	struct search s = { .host = host,
			    .wanted = sockaddr_host(sa),
			    .bytes = is_ipv6 ? sizeof(struct in6_addr) : sizeof(struct in_addr),
			    .all = sockaddr_is_wildcard(sa),
			    .to = to };

	if (sa->ss_family != AF_INET && !is_ipv6)
		return;
	s.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (s.fd < 0)
		return;
	if (is_ipv6)
		search_ipv6(&s);
	else
		search_ipv4(&s);
	close(s.fd);
	/* Each address of 127.0.0.0/8 is loopback's. */
	if (!s.found && !is_ipv6 && ntohl(ipv4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET)
		nic_names_put(host, "lo", to);
}
