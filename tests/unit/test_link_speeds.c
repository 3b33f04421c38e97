/* The speeds of `compare --link`. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "link_speeds.h"
#include "util.h"

static void speeds_are_of_all_hosts_or_of_those_named(void **state)
{
	struct reason reason = { "" };
	struct link_speeds speeds;

	(void)state;
	assert_int_equal(link_speeds_parse("25G\nc[1-2]=10G\nroot@c3=2.5G", &speeds, &reason), 0);
	assert_int_equal(link_speeds_of(&speeds, NULL), 25000000000);
	assert_int_equal(link_speeds_of(&speeds, "server1"), 25000000000);
	assert_int_equal(link_speeds_of(&speeds, "c2"), 10000000000);
	assert_int_equal(link_speeds_of(&speeds, "root@c3"), 2500000000);
	link_speeds_free(&speeds);
	assert_int_equal(link_speeds_parse("c1=100M", &speeds, &reason), 0);
	assert_int_equal(link_speeds_of(&speeds, "c1"), 100000000);
	assert_int_equal(link_speeds_of(&speeds, "c2"), 0);
	link_speeds_free(&speeds);
}

static void what_is_no_speed_is_refused(void **state)
{
	static const struct {
		const char *text, *expected;
	} cases[] = {
		{ "", "expected bits per second such as 25G" },
		{ "25", "got '25'" },
		{ "25GB", "got '25GB'" },
		{ "-1G", "got '-1G'" },
		{ "nanG", "got 'nanG'" },
		{ "1e9G", "got '1e9G'" },
		{ "c1=", "got 'c1='" },
		{ "c1=fast", "got 'c1=fast'" },
		{ "=25G", "expected [USER@]HOST" },
		{ "25G\nc[1-2=1G", "a [ without its ]" },
		{ "a=1G\na=1G\na=1G\na=1G\na=1G\na=1G\na=1G\na=1G\na=1G\n"
		  "a=1G\na=1G\na=1G\na=1G\na=1G\na=1G\na=1G\na=1G",
		  "at most 16 are taken" },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		struct reason reason = { "" };
		struct link_speeds speeds;

		assert_int_equal(link_speeds_parse(cases[i].text, &speeds, &reason), -EINVAL);
		assert_non_null(strstr(reason.text, cases[i].expected));
		link_speeds_free(&speeds);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(speeds_are_of_all_hosts_or_of_those_named),
		cmocka_unit_test(what_is_no_speed_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
