/* Then and now: rows beside saved ones of the same name.  See struct then; changes.c has what
 * changed between. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"
#include "numbers.h"
#include "parts.h"
#include "util.h"

/* ---- Runs ---- */

/* A value of each run: the medians of its visits. */
struct runs {
	double *costs, *generators; /* both NULL: there are none; a generator's NaN: unknown */
	unsigned count;
};

static bool is_of(const struct measure *visit, const char *run)
{
	return *run && !strcmp(visit->visit.run, run);
}

static bool has_run(const struct measure *row, unsigned visits, const char *run)
{
	for (unsigned i = 0; i < visits; i++)
		if (is_of(measure_visit_at(row, i), run))
			return true;
	return false;
}

static double run_value(const struct measure *row, const char *run, enum figure figure)
{
	struct measure one = { .visits = must(calloc(measure_visits(row), sizeof(*one.visits))) };
	double median;

	for (unsigned i = 0; i < measure_visits(row); i++)
		if (is_of(measure_visit_at(row, i), run))
			one.visits[one.visit_count++] = (struct measure *)measure_visit_at(row, i);
	median = figure_spread(&one, figure).median;
	free(one.visits);
	return median;
}

/* Adds the runs of a row, without those that `except` has, too; NULL: with all. */
static void runs_add(struct runs *to, const struct measure *row, enum figure cost,
		     const struct measure *except)
{
	unsigned visits = measure_visits(row);

	to->costs = must(reallocarray(to->costs, to->count + visits, sizeof(*to->costs)));
	to->generators =
		must(reallocarray(to->generators, to->count + visits, sizeof(*to->generators)));
	for (unsigned i = 0; i < visits; i++) {
		const char *run = measure_visit_at(row, i)->visit.run;

		if (!*run || has_run(row, i, run) ||
		    (except && has_run(except, measure_visits(except), run)))
			continue;
		to->costs[to->count] = run_value(row, run, cost);
		to->generators[to->count] = run_value(row, run, FIGURE_GENERATOR_PER_REQUEST);
		to->count += to->costs[to->count] > 0;
	}
}

static void runs_free(struct runs *runs)
{
	free(runs->costs);
	free(runs->generators);
}

static bool all_known(const struct runs *runs)
{
	for (unsigned i = 0; i < runs->count; i++)
		if (!(runs->generators[i] > 0))
			return false;
	return true;
}

static double median_of(const double *values, unsigned count)
{
	double *sorted = must(calloc(count + 1U, sizeof(*sorted))), median;

	for (unsigned i = 0; i < count; i++)
		sorted[i] = values[i];
	median = numbers_median(sorted, count);
	free(sorted);
	return median;
}

/* ---- Pairs ---- */

static bool is_past_of(const struct measure *then, const struct measure *now, bool any_setup)
{
	return then->count && !strcmp(then->label, now->label) &&
	       !strcmp(then->listener, now->listener) && !strcmp(then->service, now->service) &&
	       !strcmp(then->operation, now->operation) &&
	       (any_setup || !strcmp(then->visit.setup, now->visit.setup));
}

static const struct measure *find(const struct measures *then, const struct measure *now,
				  bool any_setup)
{
	for (unsigned i = 0; i < then->count; i++)
		if (is_past_of(then->rows[i], now, any_setup))
			return then->rows[i];
	return NULL;
}

static void find_pair(struct result *r, struct result_row *row, const struct measures *then)
{
	const struct measure *past = find(then, row->row, false);
	const struct measure *other = past ? past : find(then, row->row, true);

	if (!other)
		return;
	row->then = must(calloc(1, sizeof(*row->then)));
	*row->then = (struct then){ .row = other,
				    .before = NAN,
				    .now = NAN,
				    .generator_before = NAN,
				    .generator_now = NAN,
				    .other_setup = !past,
				    .gate = GATE_NOT_COMPARABLE };
	r->found++;
}

/* ---- Judging ---- */

/* The verdict is on the cost itself, or on its ratio to the generator's CPU time: in the same setup
 * that is the same work then and now, so the machine's speed cancels. */
static void judge_runs(struct then *t, struct runs *past, struct runs *now, bool by_requests,
		       unsigned comparisons, double within)
{
	bool known = by_requests && past->count && now->count && all_known(past) && all_known(now);
	bool same_work = known && !t->other_setup;

	t->runs_before = past->count;
	t->runs_now = now->count;
	if (known) {
		t->generator_before = median_of(past->generators, past->count);
		t->generator_now = median_of(now->generators, now->count);
		t->machine_changed =
			same_work &&
			fabs(log(t->generator_now / t->generator_before)) > log1p(within);
	}
	for (unsigned i = 0; same_work && i < past->count; i++)
		past->costs[i] /= past->generators[i];
	for (unsigned i = 0; same_work && i < now->count; i++)
		now->costs[i] /= now->generators[i];
	t->verdict = verdict_of_runs(past->costs, past->count, now->costs, now->count, comparisons,
				     within);
}

static void withdraw(struct then *t)
{
	t->verdict.is = VERDICT_NOT_COMPARABLE;
	t->verdict.low = t->verdict.high = t->verdict.level = NAN;
}

static void judge(struct result *r, struct result_row *row, const struct measures *then,
		  unsigned comparisons, bool force)
{
	struct then *t = row->then;
	const struct measure *const pair[] = { t->row, row->row };
	enum figure cost = judge_cost_figure((struct measure *const *)pair, 2);
	struct runs past = { 0 }, now = { 0 };

	for (unsigned j = 0; j < then->count; j++)
		if (is_past_of(then->rows[j], row->row, force || t->other_setup)) {
			t->other_setup |= !is_past_of(then->rows[j], row->row, false);
			runs_add(&past, then->rows[j], cost, row->row);
		}
	runs_add(&now, row->row, cost, NULL);
	/* Runs that are in both files are shown, though not judged. */
	t->before =
		past.count ? median_of(past.costs, past.count) : figure_spread(t->row, cost).median;
	t->now = now.count ? median_of(now.costs, now.count) : figure_spread(row->row, cost).median;
	judge_runs(t, &past, &now, cost == FIGURE_CPU_PER_REQUEST, comparisons, r->within);
	if ((t->other_setup && !force) || t->machine_changed || row->doubt != DOUBT_NONE)
		withdraw(t);
	t->gate = gate_of(&t->verdict, r->within);
	if (isnan(t->verdict.change) || t->verdict.is == VERDICT_NOT_COMPARABLE)
		t->verdict.change = t->now / t->before - 1;
	r->machine_changed |= t->machine_changed;
	runs_free(&past);
	runs_free(&now);
}

void then_judge(struct result *r, const struct measures *then, bool force)
{
	unsigned counts[GATES] = { 0 }, comparisons = 0;

	r->against = true;
	for (unsigned i = 0; i < r->group_count; i++)
		for (unsigned j = 0; j < r->groups[i].count; j++)
			find_pair(r, &r->groups[i].rows[j], then);
	for (struct result_at at = { 0 }; result_next(r, &at);)
		comparisons += at.row->then && (force || !at.row->then->other_setup);
	for (unsigned i = 0; i < r->group_count; i++)
		for (unsigned j = 0; j < r->groups[i].count; j++) {
			struct result_row *row = &r->groups[i].rows[j];

			if (row->then)
				judge(r, row, then, MAX(comparisons, 1U), force);
			counts[row->then ? row->then->gate : GATE_NOT_COMPARABLE]++;
		}
	r->against_gate = gate_of_all(counts);
	r->changed = changes_of(r);
}
