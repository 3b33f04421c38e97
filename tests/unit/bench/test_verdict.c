/* bench/result/verdict.c: the vectors of an independent reference; how often chance is taken for a
 * difference, and a difference found, with noise from a generator with a fixed seed. */
#include <math.h>

#include <jansson.h>

#include "unit.h"
#include "util.h"
#include "verdict.h"

/* ---- Vectors: one JSON object a line, made by the reference ---- */

static unsigned costs_of(const json_t *list, double *ret_costs)
{
	json_t *cost;
	size_t i;

	json_array_foreach(list, i, cost)
		ret_costs[i] = json_is_null(cost) ? NAN : json_number_value(cost);
	return (unsigned)json_array_size(list);
}

static void assert_number(const json_t *vector, const char *name, double value)
{
	const json_t *wanted = json_object_get(json_object_get(vector, "expect"), name);
	double number = json_number_value(wanted);

	if (json_is_null(wanted) ? !isnan(value)
				 : !(fabs(value - number) <= 1e-9 * fabs(number) + 1e-12))
		fail_msg("%s: %s is %.12g instead of %.12g",
			 json_string_value(json_object_get(vector, "name")), name, value, number);
}

static void check_vector(const json_t *vector)
{
	const json_t *expect = json_object_get(vector, "expect");
	char wanted[32], *blank;
	double first[64], row[64];
	unsigned rounds = costs_of(json_object_get(vector, "first"), first);
	struct verdict v;

	assert_int_equal(costs_of(json_object_get(vector, "row"), row), rounds);
	v = verdict_of(first, row, rounds,
		       (unsigned)json_integer_value(json_object_get(vector, "comparisons")),
		       json_number_value(json_object_get(vector, "within")));
	assert_int_equal(v.rounds, json_integer_value(json_object_get(expect, "rounds")));
	assert_int_equal(v.least, json_integer_value(json_object_get(expect, "least")));
	assert_number(vector, "change", v.change);
	assert_number(vector, "low", v.low);
	assert_number(vector, "high", v.high);
	snprintf(wanted, sizeof(wanted), "%s",
		 json_string_value(json_object_get(expect, "verdict")));
	while ((blank = strchr(wanted, ' ')))
		*blank = '_';
	assert_string_equal(verdict_names[v.is], wanted);
}

TEST(vectors_of_the_reference_are_met)
{
	FILE *from = fopen("tests/unit/bench/verdict/vectors.jsonl", "re");
	unsigned count = 0;
	json_t *vector;

	assert_non_null(from);
	while ((vector = json_loadf(from, JSON_DISABLE_EOF_CHECK, NULL))) {
		check_vector(vector);
		json_decref(vector);
		count++;
	}
	fclose(from);
	assert_int_equal(count, 30);
}

/* ---- Chance ---- */

static uint64_t seed;

static double uniform(void)
{
	seed = seed * 6364136223846793005U + 1442695040888963407U;
	return ((double)(seed >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
	return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

/* A cost near 450 ns in a machine that drifts by 5 %, with noise of its own of `noise`. */
struct noise {
	double drift, own;
};

static void one_round(const struct noise *n, double shift, double *ret_first, double *ret_row)
{
	double mood = n->drift * normal();

	*ret_first = 450 * exp(mood + n->own * normal());
	*ret_row = 450 * (1 + shift) * exp(mood + n->own * normal());
}

/* In how many of 400 comparisons is the verdict `is`? */
static unsigned count_verdicts(const struct noise *n, double shift, unsigned rounds,
			       enum verdict_is is)
{
	unsigned count = 0;

	seed = 1;
	for (unsigned i = 0; i < 400; i++) {
		double first[64], row[64];

		for (unsigned r = 0; r < rounds; r++)
			one_round(n, shift, &first[r], &row[r]);
		count += verdict_of(first, row, rounds, 1, 0.05).is == is;
	}
	return count;
}

TEST(equal_rows_differ_by_chance_in_five_of_a_hundred)
{
	static const struct noise noises[] = { { 0.05, 0.01 }, { 0.05, 0.03 }, { 0, 0.1 } };
	static const unsigned rounds[] = { 6, 12, 40 };

	for (unsigned n = 0; n < ARRAY_SIZE(noises); n++)
		for (unsigned r = 0; r < ARRAY_SIZE(rounds); r++) {
			unsigned wrong = count_verdicts(&noises[n], 0, rounds[r], VERDICT_LESS) +
					 count_verdicts(&noises[n], 0, rounds[r], VERDICT_MORE);

			/* 20 are expected, 32 or more come in 1 of 200 such counts. */
			if (wrong >= 32)
				fail_msg("noise %u, %u rounds: %u of 400", n, rounds[r], wrong);
		}
}

TEST(more_rounds_find_more)
{
	static const struct noise noise = { 0.05, 0.03 };
	unsigned few = count_verdicts(&noise, 0.05, 6, VERDICT_MORE);
	unsigned more = count_verdicts(&noise, 0.05, 12, VERDICT_MORE);
	unsigned many = count_verdicts(&noise, 0.05, 40, VERDICT_MORE);

	assert_true(few < more && more < many && many >= 395);
	assert_true(more >= 360);
	assert_true(count_verdicts(&noise, 0, 40, VERDICT_SAME) >= 360);
}

/* ---- Whole runs ---- */

/* In how many of 400 gates of 12 rows is any row's low end above 0? */
static unsigned count_worse(unsigned runs, double shift)
{
	unsigned count = 0;

	seed = 1;
	for (unsigned i = 0; i < 400; i++) {
		bool any = false;

		for (unsigned row = 0; row < 12; row++) {
			double before[VERDICT_RUNS_MAX], now[VERDICT_RUNS_MAX];

			for (unsigned r = 0; r < runs; r++) {
				before[r] = 450 * exp(0.03 * normal());
				now[r] = 450 * (1 + shift) * exp(0.03 * normal());
			}
			any |= verdict_of_runs(before, runs, now, runs, 12, 0.05).low > 0;
		}
		count += any;
	}
	return count;
}

TEST(runs_that_are_equal_are_worse_in_five_of_a_hundred_gates)
{
	assert_true(count_worse(5, 0) < 32);
	assert_true(count_worse(10, 0) < 32);
	assert_true(count_worse(10, 0.1) == 400);
}

TEST(too_few_runs_decide_nothing)
{
	static const double before[] = { 1, 1, 1, 1, 1 }, now[] = { 2, 2, 2, 2, 2 };

	assert_int_equal(verdict_of_runs(before, 5, now, 4, 1, 0.05).is, VERDICT_TOO_FEW_ROUNDS);
	assert_int_equal(verdict_of_runs(before, 5, now, 5, 12, 0.05).is, VERDICT_MORE);
	/* 1 of 252 orders is more than 0.05 / 13. */
	assert_int_equal(verdict_of_runs(before, 5, now, 5, 13, 0.05).is, VERDICT_TOO_FEW_ROUNDS);
}

TEST(thousands_of_rounds_are_joined)
{
	enum { ROUNDS = 20000 };
	double *costs = calloc(2 * ROUNDS, sizeof(*costs));

	assert_non_null(costs);
	for (unsigned i = 0; i < 2 * ROUNDS; i++)
		costs[i] = 1;
	assert_int_equal(verdict_of(costs, costs + ROUNDS, ROUNDS, 1, 0.05).rounds, ROUNDS);
	free(costs);
}
