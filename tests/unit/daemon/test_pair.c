/* core/pair.h: which GIDs can be those of a host's port. */
#include <arpa/inet.h>

#include "pair.h"
#include "unit.h"

static bool is_host(const char *address)
{
	uint8_t gid[PAIR_GID];

	assert_int_equal(inet_pton(AF_INET6, address, gid), 1);
	return pair_gid_is_host(gid);
}

TEST(addresses_of_hosts)
{
	assert_true(is_host("::ffff:10.9.0.1"));
	assert_true(is_host("::ffff:223.255.255.254"));
	assert_true(is_host("::ffff:1.0.0.0"));
	assert_true(is_host("fe80::77"));
	assert_true(is_host("2001:db8::1"));
	assert_true(is_host("::2"));
}

TEST(addresses_of_no_host)
{
	assert_false(is_host("::"));
	assert_false(is_host("::1"));
	assert_false(is_host("ff02::1"));
	assert_false(is_host("::ffff:0.0.0.0"));
	assert_false(is_host("::ffff:0.1.2.3"));
	assert_false(is_host("::ffff:127.0.0.1"));
	assert_false(is_host("::ffff:127.255.255.255"));
	assert_false(is_host("::ffff:224.0.0.1"));
	assert_false(is_host("::ffff:240.0.0.1"));
	assert_false(is_host("::ffff:255.255.255.255"));
}
