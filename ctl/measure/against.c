/* See against.h; against_changes.c has what changed, against_form.c the table and JSON. */
#include "against.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "figure.h"
#include "must.h"
#include "util.h"
#include "verdict.h"

/* ---- Runs ---- */

/* The cost of each run: the median of its visits. */
struct runs {
	double *costs;
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

static double run_cost(const struct measure *row, const char *run, enum figure cost)
{
	struct measure one = { .visits = must(calloc(measure_visits(row), sizeof(*one.visits))) };
	double median;

	for (unsigned i = 0; i < measure_visits(row); i++)
		if (is_of(measure_visit_at(row, i), run))
			one.visits[one.visit_count++] = (struct measure *)measure_visit_at(row, i);
	median = figure_spread(&one, cost).median;
	free(one.visits);
	return median;
}

/* Adds the runs of a row, without those that `except` has, too; NULL: with all. */
static void runs_add(struct runs *to, const struct measure *row, enum figure cost,
		     const struct measure *except)
{
	unsigned visits = measure_visits(row);

	to->costs = must(reallocarray(to->costs, to->count + visits, sizeof(*to->costs)));
	for (unsigned i = 0; i < visits; i++) {
		const char *run = measure_visit_at(row, i)->visit.run;

		if (!*run || has_run(row, i, run) ||
		    (except && has_run(except, measure_visits(except), run)))
			continue;
		to->costs[to->count] = run_cost(row, run, cost);
		to->count += to->costs[to->count] > 0;
	}
}

/* ---- Pairs ---- */

static bool is_past_of(const struct measure *then, const struct measure *now, bool any_setup)
{
	return then->count && !strcmp(then->label, now->label) &&
	       !strcmp(then->listener, now->listener) && !strcmp(then->service, now->service) &&
	       !strcmp(then->operation, now->operation) &&
	       (any_setup || !strcmp(then->visit.setup, now->visit.setup));
}

static struct measure *find(const struct measures *then, const struct measure *now, bool any_setup)
{
	for (unsigned i = 0; i < then->count; i++)
		if (is_past_of(then->rows[i], now, any_setup))
			return then->rows[i];
	return NULL;
}

static void add_pair(struct against *a, const struct measures *then, struct measure *now)
{
	struct measure *past = find(then, now, false), *other = past ? past : find(then, now, true);
	struct group *g = &a->groups.list[a->groups.count];

	*g = (struct group){ .service = now->service,
			     .label = now->label,
			     .operation = now->operation,
			     .pair = now->listener,
			     .rows = must(calloc(2, sizeof(struct measure *))),
			     .verdicts = must(calloc(2, sizeof(struct verdict))),
			     .within = a->within,
			     .of_runs = true };
	if (other)
		g->rows[g->count++] = other;
	g->rows[g->count++] = now;
	g->cost = compare_cost(g->rows, g->count);
	a->rows[a->groups.count++] = (struct against_row){
		.then = NAN, .now = NAN, .other_setup = other && !past, .gate = GATE_NOT_COMPARABLE
	};
}

static void find_pairs(struct against *a, const struct measures *then, const struct measures *now)
{
	a->groups.list = must(calloc(now->count + 1U, sizeof(*a->groups.list)));
	a->rows = must(calloc(now->count + 1U, sizeof(*a->rows)));
	for (unsigned i = 0; i < now->count; i++)
		if (now->rows[i]->count && !measure_is_minor(now->rows[i]))
			add_pair(a, then, now->rows[i]);
}

/* ---- Judging ---- */

/* Puts the costs in order. */
static double cost_of(struct runs *runs, const struct measure *row, enum figure cost)
{
	return runs->count ? numbers_median(runs->costs, runs->count)
			   : figure_spread(row, cost).median;
}

static void judge(struct against *a, unsigned i, const struct measures *then, bool force)
{
	struct group *g = &a->groups.list[i];
	struct against_row *row = &a->rows[i];
	struct verdict *v = &g->verdicts[1];
	struct runs past = { 0 }, runs = { 0 };

	for (unsigned j = 0; j < then->count; j++)
		if (is_past_of(then->rows[j], g->rows[1], force || row->other_setup))
			runs_add(&past, then->rows[j], g->cost, g->rows[1]);
	runs_add(&runs, g->rows[1], g->cost, NULL);
	*v = verdict_of_runs(past.costs, past.count, runs.costs, runs.count, g->comparisons,
			     a->within);
	if (row->other_setup && !force) {
		v->is = VERDICT_NOT_COMPARABLE;
		v->low = v->high = v->level = NAN;
	}
	row->runs_then = past.count;
	row->runs_now = runs.count;
	if (past.count == 0) /* not judged, but shown: runs that are in both */
		runs_add(&past, g->rows[0], g->cost, NULL);
	row->then = cost_of(&past, g->rows[0], g->cost);
	row->now = cost_of(&runs, g->rows[1], g->cost);
	row->gate = gate_of(v, a->within);
	if (isnan(v->change) || v->is == VERDICT_NOT_COMPARABLE)
		v->change = row->now / row->then - 1;
	free(past.costs);
	free(runs.costs);
}

void against_init(struct against *ret, const struct measures *then, const struct measures *now,
		  bool force)
{
	unsigned counts[GATES] = { 0 }, comparisons = 0;

	*ret = (struct against){ .within = now->within > 0 ? now->within : WITHIN_DEFAULT };
	find_pairs(ret, then, now);
	for (unsigned i = 0; i < ret->groups.count; i++)
		comparisons +=
			ret->groups.list[i].count > 1 && (force || !ret->rows[i].other_setup);
	for (unsigned i = 0; i < ret->groups.count; i++) {
		ret->groups.list[i].comparisons = MAX(comparisons, 1U);
		if (ret->groups.list[i].count > 1) {
			judge(ret, i, then, force);
			ret->found++;
		}
		counts[ret->rows[i].gate]++;
	}
	ret->gate = gate_of_all(counts);
	ret->changed = against_changes(&ret->groups);
}

void against_fini(struct against *a)
{
	groups_fini(&a->groups);
	free(a->rows);
	json_decref(a->changed);
}
