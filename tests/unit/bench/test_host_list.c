/* Lists of hosts, as compare --on takes them. */

#include "host_list.h"
#include "unit.h"
#include "util.h"

/* The hosts, with a space between them. */
static void expect(const char *text, const char *expected)
{
	struct reason reason = { "" };
	CLEANUP(host_list_free) struct host_list hosts;
	char found[4096] = "";

	assert_int_equal(host_list_parse(text, &hosts, &reason), 0);
	for (unsigned i = 0; i < hosts.count; i++) {
		strcat(found, i ? " " : "");
		strcat(found, hosts.names[i]);
	}
	assert_string_equal(found, expected);
}

static void refuse(const char *text, const char *expected)
{
	struct reason reason = { "" };
	CLEANUP(host_list_free) struct host_list hosts;

	assert_int_equal(host_list_parse(text, &hosts, &reason), -EINVAL);
	assert_has(reason.text, expected);
}

TEST(names_are_a_list)
{
	expect("c1", "c1");
	expect("c1,root@c2,2001:db8::1", "c1 root@c2 2001:db8::1");
}

TEST(what_is_no_list_is_refused)
{
	char many[HOST_LIST_MAX * 8] = "h";

	refuse("", "expected [USER@]HOST");
	refuse("c1,", "expected [USER@]HOST");
	refuse("c1,-oProxyCommand=x", "expected [USER@]HOST");
	refuse("c1 c2", "a name has no space");
	refuse("c1,c2,c1", "it is there twice, got 'c1'");
	for (unsigned i = 0; i < HOST_LIST_MAX; i++)
		sprintf(many + strlen(many), ",c%u", i);
	refuse(many, "there are too many hosts, got 'c63'");
}
