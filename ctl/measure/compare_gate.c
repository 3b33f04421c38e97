/* See compare_gate.h. */
#include "compare_gate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare_group.h"
#include "figure.h"
#include "human.h"
#include "util.h"

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
	struct measure one = { .visits = calloc(measure_visits(row), sizeof(*one.visits)) };
	double median;

	if (!one.visits)
		abort();
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

	to->costs = reallocarray(to->costs, to->count + visits, sizeof(*to->costs));
	if (!to->costs)
		abort();
	for (unsigned i = 0; i < visits; i++) {
		const char *run = measure_visit_at(row, i)->visit.run;

		if (!*run || has_run(row, i, run) ||
		    (except && has_run(except, measure_visits(except), run)))
			continue;
		to->costs[to->count] = run_cost(row, run, cost);
		to->count += to->costs[to->count] > 0;
	}
}

/* ---- Judging ---- */

static enum gate gate_of(const struct verdict *v, double within)
{
	return v->is == VERDICT_TOO_FEW_ROUNDS ? GATE_NOT_COMPARABLE
	       : v->high <= within             ? GATE_PASSED
	       : v->is == VERDICT_MORE         ? GATE_WORSE
					       : GATE_UNDECIDED;
}

static bool same_name(const struct measure *a, const struct measure *b)
{
	return !strcmp(a->label, b->label) && !strcmp(a->listener, b->listener) &&
	       !strcmp(a->service, b->service) && !strcmp(a->operation, b->operation);
}

struct judging {
	struct output *out;
	const struct measures *before;
	unsigned comparisons;
	double within;
	bool force;
	unsigned counts[GATE_NOT_COMPARABLE + 1];
};

static const struct measure *find(const struct judging *j, const struct measure *row,
				  bool any_setup)
{
	for (unsigned i = 0; i < j->before->count; i++) {
		const struct measure *r = j->before->rows[i];

		if (r->count && same_name(r, row) &&
		    (any_setup || !strcmp(r->visit.setup, row->visit.setup)))
			return r;
	}
	return NULL;
}

static struct verdict verdict_on(const struct judging *j, const struct measure *now,
				 enum figure cost, unsigned *ret_before, unsigned *ret_now)
{
	struct runs past = { 0 }, runs = { 0 };
	struct verdict v;

	for (unsigned i = 0; i < j->before->count; i++) {
		const struct measure *r = j->before->rows[i];

		if (r->count && same_name(r, now) &&
		    (j->force || !strcmp(r->visit.setup, now->visit.setup)))
			runs_add(&past, r, cost, now);
	}
	runs_add(&runs, now, cost, NULL);
	v = verdict_of_runs(past.costs, past.count, runs.costs, runs.count, j->comparisons,
			    j->within);
	*ret_before = past.count;
	*ret_now = runs.count;
	free(past.costs);
	free(runs.costs);
	return v;
}

static void judge(struct judging *j, struct measure *now, const struct measure *past)
{
	struct measure *rows[] = { (struct measure *)past, now };
	enum figure cost = compare_cost(rows, ARRAY_SIZE(rows));
	const char *colon = *now->label ? ", " : "";
	unsigned before, runs;
	struct verdict v = verdict_on(j, now, cost, &before, &runs);
	enum gate is = gate_of(&v, j->within);

	j->counts[is]++;
	if (is == GATE_NOT_COMPARABLE)
		output_wrapped(j->out, STYLE_WARN, 2,
			       "not comparable: %s %s%s%s: %u run%s against %u saved; it takes %d "
			       "of each, or more if there are many rows.",
			       now->listener, now->operation, colon, now->label, runs, plural(runs),
			       before, VERDICT_RUNS_LEAST);
	else if (is != GATE_PASSED)
		output_wrapped(j->out, is == GATE_WORSE ? STYLE_BAD : STYLE_WARN, 2,
			       "%s: %s %s%s%s: %s changed by %+.1f to %+.1f %% (%u runs against %u "
			       "saved).",
			       is == GATE_WORSE ? "worse" : "undecided", now->listener,
			       now->operation, colon, now->label, figures[cost].words, 100 * v.low,
			       100 * v.high, runs, before);
}

static unsigned count_pairs(const struct judging *j, const struct measures *now)
{
	unsigned count = 0;

	for (unsigned i = 0; i < now->count; i++)
		count += now->rows[i]->count && find(j, now->rows[i], j->force);
	return count;
}

static void judge_row(struct judging *j, struct measure *row)
{
	const struct measure *past = find(j, row, j->force);

	if (past) {
		judge(j, row, past);
	} else if (find(j, row, true)) {
		j->counts[GATE_NOT_COMPARABLE]++;
		output_wrapped(j->out, STYLE_WARN, 2,
			       "not comparable: %s %s%s%s: the saved rows are of another command, "
			       "host, kernel or configuration (--force compares them).",
			       row->listener, row->operation, *row->label ? ", " : "", row->label);
	}
}

enum gate compare_gate(struct output *out, const struct measures *before,
		       const struct measures *now, bool force)
{
	struct output said = *out;
	struct judging j = { .out = &said,
			     .before = before,
			     .within = now->within > 0 ? now->within : WITHIN_DEFAULT,
			     .force = force };
	unsigned all = 0;

	if (out->json) /* the document is on stdout */
		said.file = stderr;
	j.comparisons = MAX(count_pairs(&j, now), 1U);
	for (unsigned i = 0; i < now->count; i++)
		if (now->rows[i]->count)
			judge_row(&j, now->rows[i]);
	for (unsigned i = 0; i < ARRAY_SIZE(j.counts); i++)
		all += j.counts[i];
	if (all == 0)
		output_wrapped(&said, STYLE_WARN, 2,
			       "No saved row is of the same listener, label and operation: nothing "
			       "was compared with them.");
	else
		output_wrapped(
			&said,
			j.counts[GATE_WORSE]           ? STYLE_BAD
			: j.counts[GATE_PASSED] == all ? STYLE_GOOD
						       : STYLE_WARN,
			2,
			"Against the saved rows %u of %u are worse, %u not by more than %.3g %%, "
			"%u undecided, %u not comparable.",
			j.counts[GATE_WORSE], all, j.counts[GATE_PASSED], 100 * j.within,
			j.counts[GATE_UNDECIDED], j.counts[GATE_NOT_COMPARABLE]);
	return j.counts[GATE_WORSE]                        ? GATE_WORSE
	       : all == 0 || j.counts[GATE_NOT_COMPARABLE] ? GATE_NOT_COMPARABLE
	       : j.counts[GATE_UNDECIDED]                  ? GATE_UNDECIDED
							   : GATE_PASSED;
}

enum gate compare_pairs(struct output *out, const struct measures *m)
{
	struct output said = *out;
	unsigned counts[GATE_NOT_COMPARABLE + 1] = { 0 }, all = 0;
	struct groups groups;
	double within = m->within > 0 ? m->within : WITHIN_DEFAULT;
	enum gate is;

	if (out->json)
		said.file = stderr;
	groups_init(&groups, m);
	for (unsigned i = 0; i < groups.count; i++)
		for (unsigned j = 1; *groups.list[i].pair && j < groups.list[i].count; j++, all++)
			counts[gate_of(&groups.list[i].verdicts[j], within)]++;
	groups_fini(&groups);
	is = counts[GATE_WORSE]                        ? GATE_WORSE
	     : all == 0 || counts[GATE_NOT_COMPARABLE] ? GATE_NOT_COMPARABLE
	     : counts[GATE_UNDECIDED]                  ? GATE_UNDECIDED
						       : GATE_PASSED;
	output_wrapped(
		&said,
		is == GATE_WORSE    ? STYLE_BAD
		: is == GATE_PASSED ? STYLE_GOOD
				    : STYLE_WARN,
		2,
		"Against the first of each pair %u of %u are worse, %u not by more than %.3g "
		"%%, %u undecided, %u with too few rounds.",
		counts[GATE_WORSE], all, counts[GATE_PASSED], 100 * within, counts[GATE_UNDECIDED],
		counts[GATE_NOT_COMPARABLE]);
	return is;
}
