/* Is one row's cost less than, more than, or the same as the first row's?  Decided from costs by
 * round: what slows the machine at a time slows all rows of that round, so each round gives one
 * logarithm of their ratio, and these are judged by ranks.  Pure.
 *
 * Assumes that the logarithms are independent and symmetric about one value; neither normality nor
 * equal variances.  The interval is exact for any number of rounds, also with ties.  Sources:
 * Hodges and Lehmann 1963 (the estimate); Hollander, Wolfe, Chicken, Nonparametric Statistical
 * Methods, 3rd ed. 2014, chapter 3 (the interval). */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* The chance that any row of a group is falsely called less or more than the first.  Of several
 * comparisons each gets an equal share of it (Bonferroni), so all intervals of a group "hold
 * together": with this chance at most, one of them misses the true value. */
#define VERDICT_ALPHA 0.05
/* The part of VERDICT_ALPHA that intervals of rounds use.  The rest allows for the stopping rule:
 * rounds end when the intervals are narrow (rounds_enough()), and one that is narrow by chance is
 * wrong more often than others. */
#define VERDICT_ALPHA_ROUNDS 0.04

enum verdict_is {
	VERDICT_TOO_FEW_ROUNDS, /* whatever the costs were, these rounds could not decide */
	VERDICT_LESS,
	VERDICT_MORE,
	VERDICT_SAME,           /* the whole interval is within the tolerance */
	VERDICT_NOT_COMPARABLE, /* of another setup: decided where rows are paired */
	VERDICT_UNDECIDED, /* the change may be 0, or as much as the farther end of the interval */
};
extern const char *const verdict_names[]; /* as in JSON */
static inline bool verdict_decides(enum verdict_is is)
{
	return is == VERDICT_LESS || is == VERDICT_MORE;
}

struct verdict {
	enum verdict_is is;
	unsigned rounds; /* in which both rows have a cost */
	unsigned least;  /* fewest rounds that can decide */
	/* Relative changes against the first row: 0.05 is 5 % more.  NaN: unknown.  low and
	 * high are the ends of the interval whose level is at least 1 -
	 * VERDICT_ALPHA_ROUNDS / comparisons. */
	double change, low, high;
	double half_width; /* of the interval of logarithms; INFINITY: too few rounds */
};

/* Nothing is known. */
struct verdict verdict_unknown(void);
/* Takes back all but the estimate. */
void verdict_withdraw(struct verdict *v, enum verdict_is is);

/* The verdict on `row` against `first`: both have `rounds` costs, in the order of the rounds; a
 * missing visit is NaN, 0 or less.  Of more than VERDICT_ROUNDS_MAX rounds the logarithms of
 * consecutive ones are joined by their means, as the work grows with the cube of their number.
 * comparisons: the number of intervals that hold
 * together, at least 1.  within: the relative change that counts as the same, such as 0.05. */
enum { VERDICT_ROUNDS_MAX = 250 };
struct verdict verdict_of(const double *first, const double *row, unsigned rounds,
			  unsigned comparisons, double within);

/* The verdict on whole runs made at different times, which cannot be paired: on the ratio of their
 * costs, now over before, by Hodges and Lehmann's shift of two samples.  Each end of the interval
 * is wrong in at most VERDICT_ALPHA / comparisons of all cases.  All costs are above 0, and only
 * the last VERDICT_RUNS_MAX of each side are used.  `rounds` is the smaller number of runs. */
enum { VERDICT_RUNS_LEAST = 5, VERDICT_RUNS_MAX = 25 };
struct verdict verdict_of_runs(const double *before, unsigned before_count, const double *now,
			       unsigned now_count, unsigned comparisons, double within);

/* Fewest rounds that can decide anything. */
unsigned verdict_least_rounds(unsigned comparisons);

/* The interval of the values themselves, all above 0, which holds in 95 of 100 runs; NaN: too few.
 */
void verdict_interval(const double *values, unsigned count, double *ret_low, double *ret_high);
