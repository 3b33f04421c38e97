/* Pure: bytes in, an address out.  See grh.h. */
#include "grh.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

enum { IPV4_AT = 20, IPV4_BYTES = 20, IPV4_SOURCE = 12, IPV6_SOURCE = 8 };

/* Is the header checksum valid (RFC 1071: the sum is 0xffff)? */
static bool ipv4_sum_is_right(const uint8_t *header)
{
	uint32_t sum = 0;

	for (unsigned i = 0; i < IPV4_BYTES; i += 2)
		sum += (uint32_t)header[i] << 8 | header[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16) == 0xffff;
}

int grh_source(const uint8_t grh[static GRH_BYTES], struct sockaddr_storage *ret_source)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	const uint8_t *ipv4 = grh + IPV4_AT;
	bool may_be_ipv4 = ipv4[0] == 0x45, may_be_ipv6 = grh[0] >> 4 == 6;

	/* The bytes before an IPv4 header are undefined, and those at its place in an IPv6 header
	 * are part of the receiver's address: either can look valid by chance. */
	if (may_be_ipv4 && (!may_be_ipv6 || ipv4_sum_is_right(ipv4))) {
		memcpy(&in.sin_addr, ipv4 + IPV4_SOURCE, sizeof(in.sin_addr));
		memset(ret_source, 0, sizeof(*ret_source));
		memcpy(ret_source, &in, sizeof(in));
		return 0;
	}
	if (!may_be_ipv6)
		return -EINVAL;
	memcpy(&in6.sin6_addr, grh + IPV6_SOURCE, sizeof(in6.sin6_addr));
	memset(ret_source, 0, sizeof(*ret_source));
	memcpy(ret_source, &in6, sizeof(in6));
	return 0;
}
