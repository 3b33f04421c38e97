/* Networks, all of them in IPv6: IPv4 as ::ffff:a.b.c.d.  See network.h. */
#include "network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sockaddr.h"

enum { IPV4_BITS = 32, IPV6_BITS = 128, MAPPED_BITS = IPV6_BITS - IPV4_BITS };

/* Are bits first..last-1 of a and b the same? */
static bool bits_equal(const struct in6_addr *a, const struct in6_addr *b, unsigned first,
		       unsigned last)
{
	for (unsigned bit = first; bit < last; bit++)
		if ((a->s6_addr[bit / 8] ^ b->s6_addr[bit / 8]) & (0x80 >> bit % 8))
			return false;
	return true;
}

/* Parses an address without a prefix length: a network of one host. */
static int parse_host(const char *host, struct network *ret_network)
{
	struct in_addr ipv4;
	struct in6_addr ipv6;

	if (inet_pton(AF_INET, host, &ipv4) == 1)
		ipv6 = sockaddr_map_ipv4(&ipv4);
	else if (inet_pton(AF_INET6, host, &ipv6) != 1)
		return -EINVAL;
	*ret_network = (struct network){ .prefix = ipv6, .bits = IPV6_BITS };
	return 0;
}

int network_parse(const char *text, struct network *ret_network)
{
	size_t length = strcspn(text, "/");
	bool has_prefix = text[length] == '/', ipv6;
	char host[INET6_ADDRSTRLEN];
	struct network network;
	uint64_t bits;
	int err;

	if (!strcmp(text, "local")) {
		*ret_network = (struct network){ .local = true };
		return 0;
	}
	if (length >= sizeof(host))
		return -EINVAL;
	snprintf(host, sizeof(host), "%.*s", (int)length, text);
	err = parse_host(host, &network);
	if (!err && has_prefix)
		err = parse_uint(text + length + 1, &bits);
	if (err)
		return err;
	if (has_prefix) {
		ipv6 = strchr(host, ':') != NULL;
		if (bits > (ipv6 ? IPV6_BITS : IPV4_BITS))
			return -ERANGE;
		network.bits = (uint8_t)(ipv6 ? bits : bits + MAPPED_BITS);
	}
	if (!bits_equal(&network.prefix, &in6addr_any, network.bits, IPV6_BITS))
		return -EINVAL;
	*ret_network = network;
	return 0;
}

bool network_contains(const struct network *network, const struct in6_addr *mapped)
{
	return bits_equal(&network->prefix, mapped, 0, network->bits);
}

char *network_format(const struct network *network, char text[static ADDRESS_TEXT_MAX])
{
	bool ipv4 = IN6_IS_ADDR_V4MAPPED(&network->prefix) && network->bits >= MAPPED_BITS;
	unsigned bits = ipv4 ? network->bits - MAPPED_BITS : network->bits;
	size_t length;

	if (network->local)
		return strcpy(text, "local");
	inet_ntop(ipv4 ? AF_INET : AF_INET6, &network->prefix.s6_addr[ipv4 ? 12 : 0], text,
		  ADDRESS_TEXT_MAX);
	length = strlen(text);
	if (network->bits < IPV6_BITS)
		snprintf(text + length, ADDRESS_TEXT_MAX - length, "/%u", bits);
	return text;
}
