/* engine/rdma/ud/grh.c: the sender of a datagram. */
#include <arpa/inet.h>
#include <errno.h>

#include "grh.h"
#include "parse.h"
#include "unit.h"

/* An IPv4 header from 10.9.0.1 to 10.9.0.2, as on the wire. */
static const uint8_t ipv4[20] = { 0x45, 0x00, 0x00, 0x5c, 0x12, 0x34, 0x40, 0x00, 0x40, 0x11,
				  0x14, 0x49, 0x0a, 0x09, 0x00, 0x01, 0x0a, 0x09, 0x00, 0x02 };

static void put_ipv6(uint8_t grh[GRH_BYTES], const char *source)
{
	memset(grh, 0, GRH_BYTES);
	grh[0] = 0x60;
	assert_int_equal(inet_pton(AF_INET6, source, grh + 8), 1);
	assert_int_equal(inet_pton(AF_INET6, "fd09::2", grh + 24), 1);
}

static void assert_source(const uint8_t grh[GRH_BYTES], const char *expected)
{
	struct sockaddr_storage source;
	char text[ADDRESS_TEXT_MAX];

	assert_int_equal(grh_source(grh, &source), 0);
	format_sockaddr(&source, text);
	assert_string_equal(text, expected);
}

TEST(ipv6_is_the_header_itself)
{
	uint8_t grh[GRH_BYTES];

	put_ipv6(grh, "fd09::1");
	assert_source(grh, "[fd09::1]:0");
}

TEST(ipv4_is_behind_whatever_was_there)
{
	uint8_t grh[GRH_BYTES];

	for (unsigned junk = 0; junk < 256; junk++) {
		memset(grh, (int)junk, 20);
		memcpy(grh + 20, ipv4, sizeof(ipv4));
		assert_source(grh, "10.9.0.1:0");
	}
}

/* An IPv6 header whose addresses look like an IPv4 header, but for the checksum. */
TEST(addresses_that_look_like_ipv4_are_ipv6)
{
	uint8_t grh[GRH_BYTES];

	put_ipv6(grh, "fd09::1");
	memcpy(grh + 20, ipv4, sizeof(ipv4));
	grh[39] ^= 1;
	assert_source(grh, "[fd09::4500:5c]:0");
}

TEST(anything_else_is_refused)
{
	uint8_t grh[GRH_BYTES] = { 0 };
	struct sockaddr_storage source;

	assert_int_equal(grh_source(grh, &source), -EINVAL);
	grh[20] = 0x46; /* with options, which no sender uses here */
	assert_int_equal(grh_source(grh, &source), -EINVAL);
}

TEST(groups_are_told_by_the_target)
{
	uint8_t grh[GRH_BYTES] = { 0 };

	memcpy(grh + 20, ipv4, sizeof(ipv4));
	assert_false(grh_is_to_group(grh));
	grh[36] = 239;
	assert_true(grh_is_to_group(grh));
	put_ipv6(grh, "fd09::1");
	assert_false(grh_is_to_group(grh));
	assert_int_equal(inet_pton(AF_INET6, "ff05::1", grh + 24), 1);
	assert_true(grh_is_to_group(grh));
}
