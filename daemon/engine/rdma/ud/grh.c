/* Pure: bytes in, an address out.  See grh.h. */
#include "grh.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

enum {
	IPV4_AT = 20,
	IPV4_BYTES = 20,
	IPV4_SOURCE = 12,
	IPV4_TARGET = 16,
	IPV6_SOURCE = 8,
	IPV6_TARGET = 24
};

/* Is the header checksum valid (RFC 1071: the sum is 0xffff)? */
static bool ipv4_sum_is_right(const uint8_t *header)
{
	uint32_t sum = 0;

	for (unsigned i = 0; i < IPV4_BYTES; i += 2)
		sum += (uint32_t)header[i] << 8 | header[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16) == 0xffff;
}

static bool may_be_ipv6(const uint8_t *grh)
{
	return grh[0] >> 4 == 6;
}

/* The IPv4 header, or NULL.  The bytes before one are undefined, and those at its place in an IPv6
 * header are part of the receiver's address: either can look valid by chance. */
static const uint8_t *ipv4_in(const uint8_t *grh)
{
	const uint8_t *ipv4 = grh + IPV4_AT;

	return ipv4[0] == 0x45 && (!may_be_ipv6(grh) || ipv4_sum_is_right(ipv4)) ? ipv4 : NULL;
}

int grh_source(const uint8_t grh[static GRH_BYTES], struct sockaddr_storage *ret_source)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	const uint8_t *ipv4 = ipv4_in(grh);

	if (ipv4) {
		memcpy(&in.sin_addr, ipv4 + IPV4_SOURCE, sizeof(in.sin_addr));
		memset(ret_source, 0, sizeof(*ret_source));
		memcpy(ret_source, &in, sizeof(in));
		return 0;
	}
	if (!may_be_ipv6(grh))
		return -EINVAL;
	memcpy(&in6.sin6_addr, grh + IPV6_SOURCE, sizeof(in6.sin6_addr));
	memset(ret_source, 0, sizeof(*ret_source));
	memcpy(ret_source, &in6, sizeof(in6));
	return 0;
}

bool grh_is_to_group(const uint8_t grh[static GRH_BYTES])
{
	const uint8_t *ipv4 = ipv4_in(grh);

	return ipv4 ? ipv4[IPV4_TARGET] >> 4 == 0xe : grh[IPV6_TARGET] == 0xff;
}
