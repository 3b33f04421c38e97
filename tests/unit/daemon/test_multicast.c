/* Multicast groups: how they are written, and what the configuration says about them. */
#include "config_case.h"

#include "multicast.h"
#include "sockaddr.h"
#include "socket_name.h"

#define UDP    GOOD "transport = udp\n"
#define AT     "f:5: [listener a] groups: "
#define EXPECT "a multicast group and its interface such as 239.1.2.3%eth0 or ff05::1%eth0 or none"

TEST(a_group_is_an_address_and_an_interface)
{
	static const char *const texts[] = { "239.1.2.3%eth0", "224.0.0.1", "ff02::1%br-0.7",
					     "ff05::1:3", "239.255.255.255%fifteen-letters" };
	char text[MULTICAST_TEXT_MAX];
	struct multicast_group group;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		assert_int_equal(multicast_parse(texts[i], &group), 0);
		assert_true(sockaddr_is_multicast(&group.sa));
		assert_string_equal(multicast_format(&group, text), texts[i]);
	}
}

TEST(other_texts_are_refused)
{
	static const char *const texts[] = {
		"",
		"%eth0",
		"239.1.2.3%",
		"239.1.2.3%sixteen-letters!",
		"239.1.2.3%a b",
		"239.1.2.3%a/b",
		"239.1.2.3%..",
		"239.1.2.3%a%b",
		"239.1.2.3%\xc3\xa4",
		"239.1.2.3:7007",
		"[ff05::1]",
		"223.255.255.255",
		"240.0.0.1",
		"127.0.0.1%lo",
		"255.255.255.255",
		"fe80::1%eth0",
		"::",
		"239.1.2",
		"eth0",
		"ff05:0000:0000:0000:0000:0000:0000:0000:0000:0000:0001",
	};
	struct multicast_group group = { .interface = "untouched" };

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_int_equal(multicast_parse(texts[i], &group), -EINVAL);
	assert_string_equal(group.interface, "untouched");
}

TEST(a_list_of_groups_is_read)
{
	struct config *c = load(UDP "groups = 239.1.2.3%eth0, 239.1.2.3%eth1\ngroups = ff05::1\n");

	assert_int_equal(c->listeners[0].group_count, 3);
	assert_string_equal(c->listeners[0].groups[1].interface, "eth1");
	config_free(c);
	c = load(UDP "groups = none\n");
	assert_int_equal(c->listeners[0].group_count, 0);
	config_free(c);
	config_free(load(GOOD "groups = none\n"));
}

TEST(what_cannot_be_a_group_says_so)
{
	assert_errors(UDP "groups = 10.0.0.1%eth0\n",
		      AT "expected " EXPECT ", got '10.0.0.1%eth0'\n");
	assert_errors(UDP "groups = none, 239.1.2.3\n",
		      AT "expected either 'none' or groups, got '239.1.2.3' as well\n");
	assert_errors(GOOD "transport = tcp\ngroups = 239.1.2.3\n",
		      AT "requires transport = udp (transport is tcp)\n");
	assert_errors(GOOD "transport = rdma\ngroups = 239.1.2.3\noptional = yes\n",
		      AT "requires transport = udp (transport is rdma)\n");
}

TEST(the_number_of_groups_is_bounded)
{
	char text[4096] = UDP;

	for (unsigned i = 0; i < CONFIG_GROUPS_MAX; i++)
		sprintf(text + strlen(text), "groups = 239.0.0.%u%%lo\n", i);
	config_free(load(text));
	strcat(text, "groups = 239.1.0.0%lo\n");
	assert_has(errors_of(text),
		   "groups: expected at most 20 entries, got '239.1.0.0%lo' as well");
	assert_errors("[listener a]\nservice = echo\ntransport = udp\naddress = 127.0.0.1:1-100\n"
		      "groups = 239.0.0.1%lo, 239.0.0.2%lo\n",
		      "f:5: [listener a] groups: expected at most 1 for 100 ports (256 sockets in "
		      "a listener), got 2\n");
}

/* Two listeners with these addresses and groups; "": they may be used together. */
static const char *together(const char *a, const char *groups_a, const char *b,
			    const char *groups_b)
{
	char text[1024];

	snprintf(text, sizeof(text),
		 "[listener a]\nservice = echo\ntransport = udp\naddress = %s\ngroups = %s\n"
		 "[listener b]\nservice = echo\ntransport = udp\naddress = %s\ngroups = %s\n",
		 a, groups_a, b, groups_b);
	return errors_if_any(text);
}

TEST(no_datagram_is_answered_twice)
{
	static const char *const G = "239.0.0.1%lo";

	assert_string_equal(together("127.0.0.1:7", G, "127.0.0.2:8", G), "");
	assert_string_equal(together("127.0.0.1:0", G, "127.0.0.1:0", G), "");
	assert_string_equal(together("127.0.0.1:7", G, "127.0.0.2:7", "239.0.0.1%eth0"), "");
	assert_string_equal(
		together("127.0.0.1:6-8", G, "127.0.0.2:7", G),
		"f:10: [listener b] groups: '239.0.0.1%lo' is already served at that port by "
		"[listener a] (f:1), and each datagram would be answered twice\n");
	assert_has(together("127.0.0.1:7", "239.0.0.1", "127.0.0.2:7", G), "twice");
	assert_has(together("127.0.0.1:7", G, "239.0.0.1:7", "none"), "twice");
	assert_has(together("239.0.0.1:7", "none", "127.0.0.1:7", G), "twice");
	assert_has(together("[::1]:7", "ff05::1, ff05::1", "[::1]:8", "none"), "twice");
}

/* The name of a kept socket tells the interface, which the kernel does not. */
TEST(a_kept_socket_knows_its_interface)
{
	static const char *const refused[] = { "a%=239.1.2.3 7007",   "a%0=239.1.2.3 7007",
					       "a%1=127.0.0.1 7007",  "a%80000000=239.1.2.3 7",
					       "a%1=unix @a",         "a%1@1.2=unix /run/a",
					       "a@1.2%1=unix /run/a", "%1=239.1.2.3 7007" };
	struct socket_name from = { .listener = "a", .type = SOCK_STREAM }, to;
	char text[SOCKET_NAME_TEXT_MAX];
	struct address address;

	assert_int_equal(parse_address("239.1.2.3:7007", &address), 0);
	from.wanted = address.sa;
	sockaddr_set_port(&from.wanted, 7007);
	sockaddr_set_interface(&from.wanted, 26);
	assert_string_equal(socket_name_format(&from, text), "a%1a=239.1.2.3 7007");
	assert_int_equal(socket_name_parse(text, &to), 0);
	assert_int_equal(sockaddr_interface(&to.wanted), 26);
	assert_true(socket_name_fits(&from, &to, &to.wanted));
	sockaddr_set_interface(&to.wanted, 27);
	assert_false(socket_name_fits(&from, &to, &to.wanted));
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		assert_int_equal(socket_name_parse(refused[i], &to), -EINVAL);
}
