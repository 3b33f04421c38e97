/* Output that the bridge passes on is cut between characters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "bridge_host.h"
#include "util.h"

static void a_character_waits_for_its_rest(void **state)
{
	static const struct {
		const char *text;
		size_t whole;
	} cases[] = {
		{ "", 0 },
		{ "abc\n", 4 },
		{ "a\xc3\xa4", 3 },
		{ "a\xc3", 1 },
		{ "a\xe2\x82", 1 },
		{ "\xe2\x82\xac", 3 },
		{ "\xf0\x9f\x98", 0 },
		{ "x\xf0\x9f\x98\x80", 5 },
		{ "a\xff", 1 }, /* may begin nothing, and is replaced with what follows */
		{ "\x80\x80\x80\x80", 4 },
		{ "\xc3\xa4\xa4\xa4\xa4", 5 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(bridge_whole_characters(cases[i].text, strlen(cases[i].text)),
				 cases[i].whole);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_character_waits_for_its_rest) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
