/* What every unit test needs, and its main(): each TEST() of the file runs, in their order.
 *
 *	TEST(what_must_hold)
 *	{
 *		assert_int_equal(...);
 *	}
 *
 * TEST_WITH() has a fixture as well: cmocka's set-up and tear-down, and the state that the set-up
 * gets. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct {
	struct CMUnitTest tests[100];
	size_t count;
	CMFixtureFunction before, after; /* all tests */
} unit;

static inline void unit_add(struct CMUnitTest test)
{
	if (unit.count == sizeof(unit.tests) / sizeof(unit.tests[0]))
		abort();
	unit.tests[unit.count++] = test;
}

#define TEST_WITH(name, setup, teardown, initial)                                                  \
	static void name(void **state);                                                            \
	static __attribute__((constructor(1000 + __LINE__))) void add_##name(void)                 \
	{                                                                                          \
		unit_add((struct CMUnitTest){ #name, name, setup, teardown, (void *)(initial) });  \
	}                                                                                          \
	static void name(__attribute__((unused)) void **state)

#define TEST(name) TEST_WITH(name, NULL, NULL, NULL)

/* A fixture of the whole file. */
#define ALL_TESTS_WITH(setup, teardown)                                                            \
	static __attribute__((constructor)) void add_fixture(void)                                 \
	{                                                                                          \
		unit.before = setup;                                                               \
		unit.after = teardown;                                                             \
	}

/* The variable is released when its block ends: CLEANUP(measures_free) struct measures m; one of a
 * pointer by the function that CLEANUP_OF() makes of its own, with _p behind its name. */
#define CLEANUP(release) __attribute__((cleanup(release)))
#define CLEANUP_OF(type, release)                                                                  \
	static inline void release##_p(__typeof__(type) *variable)                                 \
	{                                                                                          \
		release(*variable);                                                                \
	}

/* Keeps a text until 64 newer ones are kept, so that no test has to free it. */
static inline char *kept(char *text)
{
	static char *texts[64];
	static unsigned count;
	char **place = &texts[count++ % 64];

	free(*place);
	return *place = text;
}

/* The text that the statements write to the file `to`, kept. */
#define WRITTEN(to, ...)                                                                           \
	({                                                                                         \
		static char *text_; /* gcc 12 takes it for what is returned */                     \
		static size_t bytes_;                                                              \
		FILE *to = open_memstream(&text_, &bytes_);                                        \
		assert_non_null(to);                                                               \
		__VA_ARGS__;                                                                       \
		fclose(to);                                                                        \
		kept(text_);                                                                       \
	})

static inline void assert_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("no '%s' in:\n%s", part, text);
}

static inline void assert_has_not(const char *text, const char *part)
{
	if (strstr(text, part))
		fail_msg("'%s' in:\n%s", part, text);
}

static inline void free_p(void *variable)
{
	free(*(void **)variable);
}

int main(void)
{
	return _cmocka_run_group_tests("tests", unit.tests, unit.count, unit.before, unit.after);
}
