/* See verdict.h. */
#include "verdict.h"

#include <math.h>
#include <stdlib.h>

#include "must.h"
#include "numbers.h"
#include "util.h"

/* Ends of intervals that are nearer to 0 than this count as 0, so that rounding decides no tie. */
static const double tiny = 1e-9;

const char *const verdict_names[] = {
	[VERDICT_TOO_FEW_ROUNDS] = "too_few_rounds",
	[VERDICT_LESS] = "less",
	[VERDICT_MORE] = "more",
	[VERDICT_SAME] = "same",
	[VERDICT_UNDECIDED] = "undecided",
	[VERDICT_NOT_COMPARABLE] = "not_comparable",
};

static double *numbers_new(size_t count)
{
	return must(calloc(count + 1, sizeof(double)));
}

unsigned verdict_least_rounds(unsigned comparisons)
{
	unsigned rounds = 1;

	while (2 * ldexp(1, -(int)rounds) > VERDICT_ALPHA_ROUNDS / comparisons)
		rounds++;
	return rounds;
}

/* Pairs the costs of both rows by round: sets the logarithm of each ratio, and returns how many
 * there are.  A round in which either row has no cost is left out.  Logarithms make "half" and
 * "twice" equally far from "the same", which the test of signed ranks needs. */
static unsigned pair(const double *first, const double *row, unsigned rounds, double *ret_logs)
{
	unsigned count = 0;

	for (unsigned i = 0; i < rounds; i++)
		if (first[i] > 0 && row[i] > 0) /* false for NaN */
			ret_logs[count++] = log(row[i] / first[i]);
	return count;
}

static size_t average_count(unsigned rounds)
{
	return (size_t)rounds * (rounds + 1) / 2;
}

/* The Walsh averages: of each two values, and of each value with itself; sorted, owned by the
 * caller. Their median is the estimate, and the ends of the interval are two of them. */
static double *averages_of(const double *logs, unsigned count)
{
	double *averages = numbers_new(average_count(count));
	size_t made = 0;

	for (unsigned i = 0; i < count; i++)
		for (unsigned j = i; j < count; j++)
			averages[made++] = (logs[i] + logs[j]) / 2;
	numbers_sort(averages, made);
	return averages;
}

/* The distribution of Wilcoxon's signed-rank statistic W: P(W <= w) for w from 0 to n (n + 1) / 2,
 * owned by the caller.  If the rows cost the same, each rank from 1 to n counts or does not count
 * with equal chance, and W is the sum of those that count.  So each rank doubles the outcomes: in
 * half of them W is larger by that rank. */
static double *rank_sums(unsigned n)
{
	double *p = numbers_new(average_count(n) + 1);
	size_t most = 0;

	p[0] = 1;
	for (unsigned rank = 1; rank <= n; rank++) {
		most += rank;
		for (size_t w = most + 1; w-- > 0;)
			p[w] = (p[w] + (w >= rank ? p[w - rank] : 0)) / 2;
	}
	for (size_t w = 1; w <= most; w++)
		p[w] += p[w - 1];
	return p;
}

/* The number of sorted values to cut off at one end of the interval, so that this end is wrong
 * in at most `alpha` of all cases.  The factor lets an alpha that is a probability of the
 * table, such as 2^-n, allow that probability in spite of rounding.  0: there are too few
 * rounds for this alpha. */
static size_t cut(const double *sums, double alpha)
{
	size_t k = 0;

	while (sums[k] <= alpha * (1 + 1e-12))
		k++;
	return k;
}

static enum verdict_is decide(double low, double high, double limit)
{
	if (low > tiny)
		return VERDICT_MORE;
	if (high < -tiny)
		return VERDICT_LESS;
	return low >= -limit && high <= limit ? VERDICT_SAME : VERDICT_UNDECIDED;
}

/* Sets estimate, interval and verdict from the sorted values, in their unit: `alpha` is the chance
 * of error at each end, and an interval within +-limit means that the rows are the same.  With too
 * few values only the estimate is set. */
static void set_interval(struct verdict *v, const double *sorted, size_t count, const double *sums,
			 double alpha, double limit)
{
	size_t k = cut(sums, alpha);

	v->change = numbers_middle(sorted, count);
	if (k == 0)
		return;
	v->low = sorted[k - 1];
	v->high = sorted[count - k];
	v->is = decide(v->low, v->high, limit);
	v->half_width = (v->high - v->low) / 2;
}

/* Turns logarithms of ratios into relative changes. */
static void set_relative(struct verdict *v)
{
	v->change = expm1(v->change);
	v->low = expm1(v->low);
	v->high = expm1(v->high);
}

struct verdict verdict_unknown(void)
{
	return (struct verdict){
		.change = NAN,
		.low = NAN,
		.high = NAN,
		.half_width = INFINITY,

	};
}

void verdict_withdraw(struct verdict *v, enum verdict_is is)
{
	v->is = is;
	v->low = v->high = NAN;
	v->half_width = INFINITY;
}

static void judge_values(struct verdict *v, const double *values, double alpha, double limit)
{
	size_t count = average_count(v->rounds);
	double *averages = averages_of(values, v->rounds), *sums = rank_sums(v->rounds);

	set_interval(v, averages, count, sums, alpha / 2, limit);
	free(averages);
	free(sums);
}

/* Joins consecutive values by their means, so that there are no more than `most`; returns how many
 * there are then.  A last, shorter part is left out. */
static unsigned join(double *values, unsigned count, unsigned most)
{
	unsigned each = (count + most - 1) / most;

	if (each <= 1)
		return count;
	for (unsigned i = 0; i < count / each; i++) {
		double sum = 0;

		for (unsigned j = 0; j < each; j++)
			sum += values[i * each + j];
		values[i] = sum / each;
	}
	return count / each;
}

struct verdict verdict_of(const double *first, const double *row, unsigned rounds,
			  unsigned comparisons, double within)
{
	double *logs = numbers_new(rounds);
	unsigned count = pair(first, row, rounds, logs);
	struct verdict v = verdict_unknown();

	v.least = verdict_least_rounds(comparisons);
	v.rounds = join(logs, count, VERDICT_ROUNDS_MAX);
	if (count > 0)
		judge_values(&v, logs, VERDICT_ALPHA_ROUNDS / comparisons, log1p(within));
	v.rounds = count;
	free(logs);
	set_relative(&v);
	return v;
}

void verdict_interval(const double *values, unsigned count, double *ret_low, double *ret_high)
{
	enum { BLOCKS = 50 }; /* there is such an interval of every figure */
	double *logs = numbers_new(count);
	struct verdict v = verdict_unknown();

	for (unsigned i = 0; i < count; i++)
		logs[i] = log(values[i]);
	v.rounds = join(logs, count, BLOCKS);
	if (v.rounds > 0)
		judge_values(&v, logs, VERDICT_ALPHA_ROUNDS, 0);
	*ret_low = exp(v.low);
	*ret_high = exp(v.high);
	free(logs);
}

/* ---- Two samples ---- */

/* The distribution of the Mann-Whitney statistic U: P(U <= u) for u from 0 to n m, owned by the
 * caller.  U is the number of pairs (one of the n values, one of the m values) whose first is the
 * larger, and every order of the n + m values is equally likely.  An order is a choice of n of the
 * n + m sorted places: the k-th chosen one (from 0 on), at `place`, is larger than place - k of the
 * m values.  ways[k * width + u]: the choices of k places, among those seen so far, that give u. */
static double *pair_counts(unsigned n, unsigned m)
{
	size_t width = (size_t)n * m + 1;
	double *ways = numbers_new((n + 1) * width), *p = numbers_new(width), all = 0;

	ways[0] = 1;
	for (unsigned place = 0; place < n + m; place++)
		for (unsigned k = MIN(place + 1, n); k-- > 0;)
			for (size_t u = 0; u + place - k < width; u++)
				ways[(k + 1) * width + u + place - k] += ways[k * width + u];
	for (size_t u = 0; u < width; u++)
		p[u] = all += ways[n * width + u];
	for (size_t u = 0; u < width; u++)
		p[u] /= all;
	free(ways);
	return p;
}

struct verdict verdict_of_runs(const double *before, unsigned before_count, const double *now,
			       unsigned now_count, unsigned comparisons, double within)
{
	unsigned n = MIN(before_count, (unsigned)VERDICT_RUNS_MAX);
	unsigned m = MIN(now_count, (unsigned)VERDICT_RUNS_MAX);
	struct verdict v = verdict_unknown();
	double *shifts, *counts;

	v.rounds = MIN(n, m);
	v.least = VERDICT_RUNS_LEAST;
	if (v.rounds < v.least)
		return v;
	shifts = numbers_new((size_t)n * m);
	for (unsigned i = 0; i < n; i++)
		for (unsigned j = 0; j < m; j++)
			shifts[i * m + j] =
				log(now[now_count - m + j] / before[before_count - n + i]);
	numbers_sort(shifts, (size_t)n * m);
	counts = pair_counts(n, m);
	set_interval(&v, shifts, (size_t)n * m, counts, VERDICT_ALPHA / comparisons, log1p(within));
	set_relative(&v);
	free(shifts);
	free(counts);
	return v;
}
