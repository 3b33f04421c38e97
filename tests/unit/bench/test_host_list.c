/* Lists of hosts, as compare --on takes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "host_list.h"
#include "util.h"

/* The hosts, with a space between them. */
static void expect(const char *text, const char *expected)
{
	struct reason reason = { "" };
	struct host_list hosts;
	char found[4096] = "";

	assert_int_equal(host_list_parse(text, &hosts, &reason), 0);
	for (unsigned i = 0; i < hosts.count; i++) {
		strcat(found, i ? " " : "");
		strcat(found, hosts.names[i]);
	}
	assert_string_equal(found, expected);
	host_list_free(&hosts);
}

static void refuse(const char *text, const char *expected)
{
	struct reason reason = { "" };
	struct host_list hosts;

	assert_int_equal(host_list_parse(text, &hosts, &reason), -EINVAL);
	assert_non_null(strstr(reason.text, expected));
	host_list_free(&hosts);
}

static void names_and_ranges_are_a_list(void **state)
{
	(void)state;
	expect("c1", "c1");
	expect("c1,root@c2,2001:db8::1", "c1 root@c2 2001:db8::1");
	expect("c[1-3]", "c1 c2 c3");
	expect("root@c[08-10,20].lab,d", "root@c08.lab root@c09.lab root@c10.lab root@c20.lab d");
	expect("[7]", "7");
	expect("c[999999999]", "c999999999");
}

static void what_is_no_list_is_refused(void **state)
{
	(void)state;
	refuse("", "expected [USER@]HOST");
	refuse("c1,", "expected [USER@]HOST");
	refuse("c1,-oProxyCommand=x", "expected [USER@]HOST");
	refuse("-[1-2]", "expected [USER@]HOST");
	refuse("c1 c2", "a name has no space");
	refuse("c[1-2][3-4]", "one [...] at most");
	refuse("c]", "one [...] at most");
	refuse("c[1-2", "a [ without its ]");
	refuse("c[]", "expected numbers in [...], got ''");
	refuse("c[1,]", "expected numbers in [...], got ''");
	refuse("c[a-b]", "expected numbers in [...], got 'a-b'");
	refuse("c[3-1]", "expected a range such as 1-3, got '3-1'");
	refuse("c[1-2-3]", "expected a range such as 1-3, got '1-2-3'");
	refuse("c[9999999999]", "expected numbers");
	refuse("c[1-3],c2", "it is there twice, got 'c2'");
	refuse("c[0-64]", "there are too many hosts, got 'c64'");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_and_ranges_are_a_list),
		cmocka_unit_test(what_is_no_list_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
