/* bench/run/rounds.c with the judging of groups: rounds of listeners with known costs under
 * several noises, made until it is known, as `nbbench compare` makes them. */
#include <math.h>

#include "ctl.h"
#include "measure_visits.h"
#include "result.h"
#include "rounds.h"
#include "unit.h"
#include "util.h"

CLEANUP_OF(struct result *, result_free)

enum { LISTENERS = 3, GROUPS = 400 };

void ctl_warn(const char *format, ...)
{
	(void)format;
}

static uint64_t state_of_chance;

static double uniform(void)
{
	state_of_chance = state_of_chance * 6364136223846793005U + 1442695040888963407U;
	return ((double)(state_of_chance >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
	return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

/* ---- Noises: the logarithm of a cost; drift is that of the machine, from visit to visit ---- */

static double drift;

static double independent(unsigned position)
{
	(void)position;
	return 0.03 * normal();
}

static double drifting(unsigned position)
{
	(void)position;
	drift = 0.9 * drift + 0.013 * normal();
	return drift + 0.01 * normal();
}

static double outliers(unsigned position)
{
	(void)position;
	return 0.03 * normal() + (uniform() < 0.1 ? 0.26 : 0);
}

static double two_modes(unsigned position)
{
	(void)position;
	return 0.01 * normal() + (uniform() < 0.5 ? 0.08 : 0);
}

static double dearer_first(unsigned position)
{
	return 0.02 * normal() + (position == 0 ? 0.05 : 0);
}

/* ---- Groups ---- */

static void add_visit(struct measures *m, unsigned listener, unsigned round, double cost)
{
	static const char *const names[LISTENERS] = { "first", "second", "third" };
	struct measure *row = measures_add(m);

	row->label = "";
	row->listener = names[listener];
	row->engine = row->service = row->operation = "echo";
	row->count = row->listener_count = row->bytes_in = row->bytes_out = 1000000;
	row->interval_ns = NS_PER_S;
	row->cpu_ns = (uint64_t)(cost * 1e9);
	row->visit.run = "run";
	row->visit.round = round + 1;
}

/* Rounds until it is known; the last listener costs 1 + change of the others. */
static struct measures measured(double (*noise)(unsigned position), double change, struct rounds *r)
{
	json_t *names = json_pack("[s, s, s]", "first", "second", "third");
	struct measures m = {};
	unsigned order[LISTENERS];

	*r = (struct rounds){ .time_ns = UINT64_MAX, .comparisons = LISTENERS - 1 };
	rounds_begin(r);
	r->seed = state_of_chance;
	drift = 0;
	do {
		rounds_order(r, r->done, LISTENERS, order);
		for (unsigned i = 0; i < LISTENERS; i++) {
			double base = order[i] == LISTENERS - 1 ? 1 + change : 1;

			add_visit(&m, order[i], r->done, base * exp(noise(i)));
		}
		measures_select(&m, names);
	} while (!rounds_enough(r, &m));
	json_decref(names);
	measures_merge(&m);
	return m;
}

/* In how many groups is the last row called `is`, and in how many any row less or more? */
struct counts {
	unsigned last, any;
};

static struct counts count(double (*noise)(unsigned position), double change, enum verdict_is is)
{
	struct counts c = { 0, 0 };

	state_of_chance = 1;
	for (unsigned i = 0; i < GROUPS; i++) {
		struct rounds r;
		CLEANUP(measures_free) struct measures m = measured(noise, change, &r);
		const struct result_options options = { 0 };
		CLEANUP(result_free_p) struct result *all = result_new(&m, &options);
		bool any = false;

		assert_int_equal(all->group_count, 1);
		for (unsigned j = 1; j < LISTENERS; j++)
			any |= all->groups[0].rows[j].verdicts[JUDGED_COST].is == VERDICT_LESS ||
			       all->groups[0].rows[j].verdicts[JUDGED_COST].is == VERDICT_MORE;
		c.last += all->groups[0].rows[LISTENERS - 1].verdicts[JUDGED_COST].is == is;
		c.any += any;
	}
	return c;
}

/* The simulations compute alike in every build, and take minutes in a sanitized one. */
static void skip_if_sanitized(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip();
#endif
}

TEST(equal_listeners_differ_in_five_of_a_hundred_groups)
{
	static double (*const noises[])(unsigned position) = { independent, drifting, outliers,
							       two_modes, dearer_first };

	skip_if_sanitized();
	for (unsigned i = 0; i < ARRAY_SIZE(noises); i++) {
		struct counts c = count(noises[i], 0, VERDICT_SAME);

		/* 20 are expected at most, 32 or more of these come in 1 of 200 such counts. */
		if (c.any >= 32 || c.last < 300)
			fail_msg("noise %u: %u of %u differ, %u are the same", i, c.any, GROUPS,
				 c.last);
	}
}

TEST(five_percent_are_found_at_a_noise_of_three)
{
	struct counts c;

	skip_if_sanitized();
	c = count(independent, 0.05, VERDICT_MORE);
	assert_true(c.last >= GROUPS * 8 / 10);
}

TEST(each_second_round_is_the_first_backwards)
{
	struct rounds r = { .seed = 7 };
	unsigned there[8], back[8], firsts = 0;

	for (unsigned round = 0; round < 64; round += 2) {
		unsigned seen = 0;

		rounds_order(&r, round, 8, there);
		rounds_order(&r, round + 1, 8, back);
		for (unsigned i = 0; i < 8; i++) {
			assert_int_equal(back[i], there[7 - i]);
			seen |= 1U << there[i];
		}
		assert_int_equal(seen, 0xff);
		firsts |= 1U << there[0];
	}
	assert_int_equal(firsts, 0xff); /* each is the first at times */
}

TEST(rounds_asked_for_are_made)
{
	struct rounds r = { .repeat = 2, .comparisons = 1 };
	struct measures m = {};

	rounds_begin(&r);
	assert_false(rounds_enough(&r, &m));
	assert_true(rounds_enough(&r, &m));
	assert_null(rounds_text(&r, 0));
}

TEST(the_time_limit_leaves_the_rounds_that_can_decide)
{
	struct rounds r = { .time_ns = 1, .comparisons = 2 };
	struct measures m = {};
	unsigned rounds = 1;

	rounds_begin(&r);
	while (!rounds_enough(&r, &m))
		rounds++;
	assert_int_equal(rounds, 12);
	r = (struct rounds){ .time_ns = 1, .comparisons = 1000 };
	rounds_begin(&r);
	for (rounds = 1; !rounds_enough(&r, &m); rounds++)
		;
	assert_int_equal(rounds, result_least_rounds(1000)); /* 16 */
}

/* An interval that stays wide: only the limit that was set ends the rounds. */
TEST(a_time_that_was_given_is_used_up)
{
	static const unsigned limits[] = { ROUNDS_UNTIMED_MAX, ROUNDS_MAX };

	for (unsigned i = 0; i < ARRAY_SIZE(limits); i++) {
		struct rounds r = { .time_ns = UINT64_MAX, .most = limits[i], .comparisons = 1 };
		struct measures m = {};
		unsigned rounds = 1;

		rounds_begin(&r);
		while (!rounds_enough(&r, &m))
			rounds++;
		assert_int_equal(rounds, limits[i]);
	}
}
