/* When answers are due: core/delay.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "delay.h"
#include "util.h"

enum { DRAWS = 100 * 1000 };
#define NOW ((uint64_t)12345 * NS_PER_S + 678)

static unsigned seed = 1;

static uint64_t random64(void)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < 4; i++) /* rand_r() makes 31 bits */
		n = n << 16 ^ (uint64_t)rand_r(&seed);
	return n;
}

/* Draws that many delays, all of which must be from min to max ns; their mean. */
static double mean_of(struct delay_options delay, uint64_t min, uint64_t max)
{
	struct worker_options o = { .delay = delay };
	double sum = 0;

	for (unsigned i = 0; i < DRAWS; i++) {
		uint64_t ns = delay_due_ns(&o, NOW, random64()) - NOW;

		assert_true(min <= ns && ns <= max);
		sum += (double)ns;
	}
	for (unsigned i = 0; i < 2; i++) { /* the extremes */
		uint64_t ns = delay_due_ns(&o, NOW, i ? UINT64_MAX : 0) - NOW;

		assert_true(min <= ns && ns <= max);
	}
	return sum / DRAWS;
}

static void delays_are_drawn_as_asked(void **unused)
{
	uint64_t us = NS_PER_US;
	double mean;

	(void)unused;
	mean_of((struct delay_options){ .ns = { 0 } }, 0, 0);
	mean_of((struct delay_options){ .ns = { 200 * us } }, 200 * us, 200 * us);
	mean = mean_of((struct delay_options){ DELAY_UNIFORM, { 100 * us, 300 * us } }, 100 * us,
		       300 * us);
	assert_true(mean > 199e3 && mean < 201e3);
	mean = mean_of((struct delay_options){ DELAY_EXPONENTIAL, { 200 * us } }, 0,
		       DELAY_CUT * 200 * us);
	assert_true(mean > 197e3 && mean < 203e3);
}

/* In the stall the end of it, else at once; a delay may end in the next one. */
static void stalls_end_at_the_same_time_for_all(void **unused)
{
	uint64_t ms = NS_PER_MS;
	struct worker_options o = { .stall = { 100 * ms, NS_PER_S } };

	(void)unused;
	for (uint64_t at = 0; at < 3000; at += 7) {
		uint64_t now = 5 * (uint64_t)NS_PER_S + at * ms, phase = at % 1000;

		assert_int_equal(delay_due_ns(&o, now, 0),
				 phase < 100 ? now + (100 - phase) * ms : now);
	}
	o.delay.ns[0] = 50 * ms;
	assert_int_equal(delay_due_ns(&o, NS_PER_S - 50 * ms - 1, 0), NS_PER_S - 1);
	assert_int_equal(delay_due_ns(&o, NS_PER_S - 50 * ms, 0), NS_PER_S + 100 * ms);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(delays_are_drawn_as_asked),
		cmocka_unit_test(stalls_end_at_the_same_time_for_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
