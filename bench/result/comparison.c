/* The comparison of each row with the first of its group: by which figures, and the verdicts by
 * rounds, which verdict.c decides.  See steps.h. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hosts.h"
#include "measure_visits.h"
#include "must.h"
#include "nic_link.h"
#include "steps.h"
#include "util.h"

/* ---- Which figures ---- */

/* Does the server send no answers?  Then an operation has no request whose size it could match. */
static bool is_one_way(const struct measure *row)
{
	return MIN(row->bytes_in, row->bytes_out) < MAX(row->bytes_in, row->bytes_out) / 100;
}

static double bytes_per_op(const struct measure *row)
{
	return row->listener_count
		       ? (double)(row->bytes_in + row->bytes_out) / (double)row->listener_count
		       : 0;
}

static bool differ_in_size(struct measure *const *rows, unsigned count)
{
	double low = bytes_per_op(rows[0]), high = low;

	if (rows[0]->batch && is_one_way(rows[0]))
		return true;
	for (unsigned i = 1; i < count; i++) {
		double bytes = bytes_per_op(rows[i]);

		low = MIN(low, bytes);
		high = MAX(high, bytes);
	}
	return low > 0 && high > low * 1.1;
}

enum figure comparison_cost(struct measure *const *rows, unsigned count)
{
	bool counted = true;

	for (unsigned i = 0; i < count; i++)
		counted &= !isnan(measure_median(rows[i], FIGURE_CPU_PER_REQUEST));
	if (counted)
		return FIGURE_CPU_PER_REQUEST;
	return differ_in_size(rows, count) ? FIGURE_CPU_PER_BYTE : FIGURE_CPU_PER_OP;
}

/* Counts are divided as the cost is.  A receive of a batch service brings as much as there is, so
 * calls for each of them say nothing.  Instructions in user space alone are another figure: they
 * are judged where no row has all. */
static void choose_figures(struct result_group *g)
{
	/* In the order of TIME_PER() and COUNT_PER(), see figure_list.h. */
	static const enum figure rates[] = { FIGURE_REQUEST_RATE, FIGURE_RATE, FIGURE_BANDWIDTH };
	struct measure **rows = must(calloc(g->count, sizeof(*rows)));
	unsigned by;
	bool counts, all = false, user_alone = false;

	for (unsigned i = 0; i < g->count; i++) {
		rows[i] = g->rows[i].row;
		all |= rows[i]->instructions > 0;
		user_alone |= rows[i]->user_instructions > 0;
	}
	g->figures[JUDGED_COST] = comparison_cost(rows, g->count);
	free(rows);
	by = g->figures[JUDGED_COST] - FIGURE_CPU_PER_REQUEST;
	assert(by < ARRAY_SIZE(rates));
	counts = g->figures[JUDGED_COST] != FIGURE_CPU_PER_OP || !g->rows[0].row->batch;
	g->figures[JUDGED_CALLS] = counts ? FIGURE_SYSCALLS_PER_REQUEST + by : FIGURE_COUNT;
	g->figures[JUDGED_SWITCHES] = counts ? FIGURE_SWITCHES_PER_REQUEST + by : FIGURE_COUNT;
	g->figures[JUDGED_INSTRUCTIONS] = (user_alone && !all ? FIGURE_USER_INSTRUCTIONS_PER_REQUEST
							      : FIGURE_INSTRUCTIONS_PER_REQUEST) +
					  by;
	g->figures[JUDGED_CYCLES] = FIGURE_CYCLES_PER_REQUEST + by;
	g->figures[JUDGED_RATE] = FIGURE_REQUEST_RATE;
	g->figures[JUDGED_TRIP50] = FIGURE_TRIP50;
	g->figures[JUDGED_TRIP99] = FIGURE_TRIP99;
	g->host = FIGURE_HOST_PER_REQUEST + by;
	g->rate = rates[by];
}

/* Counts that are so few that no one could feel them are not judged: a server that polls makes one
 * call in 10,000 requests, or in 5,000. */
static bool is_worth_judging(const struct result_group *g, enum judged what)
{
	double most = 0;

	if (g->figures[what] == FIGURE_COUNT)
		return false;
	if (what >= JUDGED_FAMILIES || what == JUDGED_COST)
		return true;
	for (unsigned i = 0; i < g->count; i++)
		most = fmax(most, g->rows[i].values[g->figures[what]].median *
					  figures[g->figures[what]].scale);
	return most >= 0.01;
}

/* The number of comparisons among which the chance of error is divided.  That is the rows of a
 * group but the first; for --build those of all pairs, and for --sweep those of all its values, as
 * the user looks for a difference in any of them. */
static unsigned count_comparisons(const struct result *r, const struct result_group *g)
{
	unsigned count = 0;

	for (unsigned i = 0; i < r->group_count; i++) {
		const struct result_group *other = &r->groups[i];

		if (other == g || (*g->pair && *other->pair) || curve_has_both(g, other))
			count += other->count - 1;
	}
	return count;
}

/* Rows of one command and one configuration, in several builds: their generator does the same
 * work, so its CPU time tells how fast the machine was in each visit. */
static bool is_same_work(const struct result_group *g)
{
	const struct measure *first = g->rows[0].row;

	for (unsigned i = 0; i < g->count; i++)
		if (!*g->pair || !*first->visit.setup ||
		    strcmp(g->rows[i].row->visit.setup, first->visit.setup) != 0 ||
		    isnan(measure_median(g->rows[i].row, FIGURE_GENERATOR_PER_REQUEST)))
			return false;
	return g->figures[JUDGED_COST] == FIGURE_CPU_PER_REQUEST;
}

/* ---- Verdicts ---- */

static bool same_round(const struct measure *a, const struct measure *b)
{
	return a->visit.round > 0 && a->visit.round == b->visit.round &&
	       !strcmp(a->visit.run, b->visit.run);
}

/* The row's visit in the same round of the same run as `like`, most probably its i-th one; NULL:
 * there is none. */
static const struct measure *beside_at(const struct measure *row, unsigned i,
				       const struct measure *like)
{
	if (i < measure_visits(row) && same_round(measure_visit_at(row, i), like))
		return measure_visit_at(row, i);
	for (unsigned j = 0; j < measure_visits(row); j++)
		if (same_round(measure_visit_at(row, j), like))
			return measure_visit_at(row, j);
	return NULL;
}

/* A count of 0 is half of the least that can be seen: its logarithm is not known otherwise.  What a
 * count is divided by, the CPU time is, too: see choose_figures().  The cost of the same work is
 * divided by the generator's CPU time: see is_same_work(). */
static double value_in(const struct result_group *g, enum judged what, const struct measure *visit)
{
	double value = figure_value(visit, g->figures[what]);

	if (what < JUDGED_COST && value == 0) /* false for NaN: an unknown count */
		value = 0.5 * figure_value(visit, g->figures[JUDGED_COST]) /
			(double)measure_serving_ns(visit);
	if (what == JUDGED_COST && g->same_work)
		value /= figure_value(visit, FIGURE_GENERATOR_PER_REQUEST);
	return value;
}

/* From the rounds in which both were visited: a slow moment of the machine is in both visits of
 * its round, and cancels in their ratio. */
static struct verdict judge_rounds(const struct result_group *g, const struct result_row *first,
				   const struct result_row *row, enum judged what,
				   unsigned comparisons)
{
	unsigned visits = measure_visits(first->row), rounds = 0;
	double *values = must(calloc(2 * (size_t)visits, sizeof(*values)));
	struct verdict v;

	for (unsigned i = 0; i < visits; i++) {
		const struct measure *base = measure_visit_at(first->row, i);
		const struct measure *beside = beside_at(row->row, i, base);

		if (!beside || doubt_on_visit(g, first, base) || doubt_on_visit(g, row, beside))
			continue;
		values[rounds] = value_in(g, what, base);
		values[visits + rounds++] = value_in(g, what, beside);
	}
	v = verdict_of(values, values + visits, rounds, comparisons, g->within);
	free(values);
	return v;
}

static struct verdict judge_figure(const struct result_group *g, const struct result_row *row,
				   enum judged what)
{
	unsigned families = what < JUDGED_FAMILIES ? 1 : JUDGED_COUNT - JUDGED_FAMILIES;
	struct verdict v;

	if (!is_worth_judging(g, what))
		return verdict_unknown();
	v = judge_rounds(g, g->rows, row, what, g->comparisons * families);
	if (row->doubt != DOUBT_NONE)
		verdict_withdraw(&v, VERDICT_NOT_COMPARABLE);
	else if (what == JUDGED_RATE && (row->generator_limit || row->link_limit ||
					 g->rows->generator_limit || g->rows->link_limit))
		verdict_withdraw(&v, VERDICT_TOO_FEW_ROUNDS);
	return v;
}

bool result_is_limit(const struct result_row *row, double share)
{
	double server =
		row->values[FIGURE_CPU_SHARE].median / (double)MAX(row->row->workers, (uint64_t)1);

	return share >= 0.9 && server < 0.9 * share;
}

/* Was one thread of the generator, on each of its hosts, always busy while the server was not? */
static bool measures_generator(const struct result_row *row)
{
	return !row->link_limit &&
	       result_is_limit(row, hosts_count(row->row)
					    ? hosts_least_share(row->row)
					    : row->values[FIGURE_GENERATOR_SHARE].median);
}

static void judge_group(struct result_group *g)
{
	for (unsigned i = 0; i < g->count; i++) {
		g->rows[i].link_limit = nic_link_is_limit(g->rows[i].row);
		g->rows[i].generator_limit = measures_generator(&g->rows[i]);
		g->rows[i].change = NAN;
		doubt_find(g, &g->rows[i]);
	}
	for (unsigned i = 1; i < g->count; i++) {
		struct result_row *row = &g->rows[i];
		struct verdict *cost = &row->verdicts[JUDGED_COST];

		for (unsigned j = 0; j < JUDGED_COUNT; j++)
			row->verdicts[j] = judge_figure(g, row, j);
		row->change =
			isnan(cost->change)
				? result_cost(g, row)->median / result_cost(g, g->rows)->median - 1
				: cost->change;
		g->rounds = MAX(g->rounds, cost->rounds);
		g->judged |= cost->is != VERDICT_TOO_FEW_ROUNDS;
	}
}

static void prepare(struct result *r)
{
	for (unsigned i = 0; i < r->group_count; i++) {
		struct result_group *g = &r->groups[i];

		g->within = r->within;
		g->comparisons = count_comparisons(r, g);
		choose_figures(g);
		g->same_work = is_same_work(g);
		g->usual_bytes = doubt_usual_bytes(g);
	}
}

void comparison_judge(struct result *r)
{
	prepare(r);
	for (unsigned i = 0; i < r->group_count; i++)
		judge_group(&r->groups[i]);
}

/* ---- Widths alone, for the end of rounds ---- */

double comparison_widest(struct result *r)
{
	double widest = NAN;

	prepare(r);
	for (struct result_at at = { 0 }; result_next(r, &at);) {
		struct verdict v;

		if (at.first)
			continue;
		v = judge_figure(at.group, at.row, JUDGED_COST);
		/* A row with too few rounds does not count: its listener failed in some, and more
		 * rounds may never make up for these. */
		if (v.is != VERDICT_TOO_FEW_ROUNDS)
			widest = fmax(widest, v.half_width);
	}
	return expm1(widest);
}

unsigned result_least_rounds(unsigned comparisons)
{
	return verdict_least_rounds(comparisons);
}
