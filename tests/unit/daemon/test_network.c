/* base/network.c and sockaddr.c: which addresses a network has, and the parts of an address. */
#include <errno.h>
#include <sys/un.h>

#include "network.h"
#include "sockaddr.h"
#include "unit.h"
#include "util.h"

/* Is host in network? */
static bool contains(const char *network_text, const char *host)
{
	struct network network, one;

	assert_int_equal(network_parse(network_text, &network), 0);
	assert_int_equal(network_parse(host, &one), 0);
	return network_contains(&network, &one.prefix);
}

TEST(networks_contain_what_shares_their_prefix)
{
	assert_true(contains("127.0.0.0/8", "127.255.0.1"));
	assert_false(contains("127.0.0.0/8", "128.0.0.1"));
	assert_true(contains("10.0.0.128/25", "10.0.0.129"));
	assert_false(contains("10.0.0.128/25", "10.0.0.127"));
	assert_true(contains("10.0.0.1", "10.0.0.1"));
	assert_false(contains("10.0.0.1", "10.0.0.2"));
	assert_true(contains("2001:db8::/33", "2001:db8:7fff::1"));
	assert_false(contains("2001:db8::/33", "2001:db8:8000::1"));
}

TEST(networks_of_one_family_leave_the_other_out)
{
	assert_true(contains("0.0.0.0/0", "255.255.255.255"));
	assert_false(contains("0.0.0.0/0", "::1"));
	assert_false(contains("0.0.0.0/0", "::"));
	assert_true(contains("::/0", "10.0.0.1"));
	assert_true(contains("::ffff:10.0.0.0/104", "10.1.2.3"));
}

TEST(a_peer_is_looked_up_in_its_mapped_form)
{
	struct address address;
	struct network network;
	struct in6_addr mapped;

	assert_int_equal(network_parse("127.0.0.0/8", &network), 0);
	assert_int_equal(parse_address("127.0.0.1:1", &address), 0);
	mapped = sockaddr_mapped(&address.sa);
	assert_true(network_contains(&network, &mapped));
	assert_int_equal(parse_address("[::ffff:127.0.0.1]:1", &address), 0);
	mapped = sockaddr_mapped(&address.sa);
	assert_true(network_contains(&network, &mapped));
	assert_int_equal(parse_address("[::1]:1", &address), 0);
	mapped = sockaddr_mapped(&address.sa);
	assert_false(network_contains(&network, &mapped));
}

TEST(networks_print_what_reads_back_the_same)
{
	static const char *const texts[] = { "127.0.0.0/8", "0.0.0.0/0", "10.0.0.1",      "::/0",
					     "::1",         "::/95",     "2001:db8::/32", "local" };
	struct network network, again;
	char text[ADDRESS_TEXT_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		assert_int_equal(network_parse(texts[i], &network), 0);
		assert_string_equal(network_format(&network, text), texts[i]);
		assert_int_equal(network_parse(text, &again), 0);
		assert_memory_equal(&network.prefix, &again.prefix, sizeof(again.prefix));
		assert_int_equal(network.bits, again.bits);
		assert_int_equal(network.local, again.local);
	}
}

TEST(networks_refuse_bits_behind_the_prefix)
{
	static const struct {
		int rc;
		const char *text;
	} cases[] = {
		{ -EINVAL, "" },
		{ -EINVAL, "/" },
		{ -EINVAL, "/8" },
		{ -EINVAL, "10.0.0.1/8" },
		{ -EINVAL, "10.0.0.0/" },
		{ -EINVAL, "10.0.0.0/8 " },
		{ -EINVAL, "10.0.0.0/-1" },
		{ -EINVAL, "10.0.0.0/08" },
		{ -EINVAL, "10.0.0.0/8/8" },
		{ -EINVAL, "10/8" },
		{ -EINVAL, "::1/127" },
		{ -EINVAL, "[::1]" },
		{ -EINVAL, "any" },
		{ -EINVAL, "localhost" },
		{ -EINVAL, "local/8" },
		{ -EINVAL, "locale" },
		{ -EINVAL, "0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000" },
		{ -ERANGE, "10.0.0.0/33" },
		{ -ERANGE, "::/129" },
		{ -ERANGE, "0.0.0.0/256" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct network network, before;

		memset(&network, 0xa5, sizeof(network));
		before = network;
		assert_int_equal(network_parse(cases[i].text, &network), cases[i].rc);
		assert_memory_equal(&network, &before, sizeof(network));
	}
}

/* The length of a socket's address: of an abstract name it has no NUL. */
TEST(unix_addresses_are_as_long_as_the_kernel_takes_them)
{
	const size_t family = sizeof(sa_family_t);
	struct address address;

	assert_int_equal(parse_address("unix:/run/s", &address), 0);
	assert_int_equal(sockaddr_size(&address.sa), sizeof(struct sockaddr_un));
	assert_int_equal(parse_address("unix:@name", &address), 0);
	assert_int_equal(sockaddr_size(&address.sa), family + strlen("@name"));
}
