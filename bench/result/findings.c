/* What a run ends in: the largest differences that are decided, and what would decide the others.
 * Made of the verdicts of the table, so it cannot say anything else.  See result.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"
#include "steps.h"
#include "util.h"

/* ---- Differences that are decided ---- */

struct findings {
	struct finding *list;
	unsigned count;
};

static const char *base_of(const struct result_group *g)
{
	return g->rows[0].name;
}

static bool is_same_kind(const struct finding *f, const struct result_group *g,
			 const struct result_row *row, enum judged what)
{
	return f->what == what && !strcmp(f->row->name, row->name) &&
	       !strcmp(base_of(f->group), base_of(g)) &&
	       f->group->figures[what] == g->figures[what];
}

static double size_of(const struct verdict *v)
{
	return fabs(log1p(v->change)); /* 50 % less is as large as 100 % more */
}

static void add_finding(struct findings *all, const struct result_group *g,
			const struct result_row *row, enum judged what)
{
	const struct verdict *v = &row->verdicts[what];
	struct finding *f = NULL;

	for (unsigned i = 0; i < all->count && !f; i++)
		if (is_same_kind(&all->list[i], g, row, what) && all->list[i].is == v->is)
			f = &all->list[i];
	if (!f) {
		all->list = must(reallocarray(all->list, all->count + 1, sizeof(*all->list)));
		f = &all->list[all->count++];
		*f = (struct finding){ .what = what, .is = v->is, .low = v->low, .high = v->high };
	}
	f->low = fmin(f->low, v->low);
	f->high = fmax(f->high, v->high);
	f->groups++;
	if (size_of(v) >= f->size) {
		f->size = size_of(v);
		f->group = g;
		f->row = row;
	}
}

static void count_groups(const struct result *r, struct finding *f)
{
	for (struct result_at at = { 0 }; result_next(r, &at);)
		f->all += !at.first && is_same_kind(f, at.group, at.row, f->what);
}

/* System calls stand before context switches, instructions, cycles and CPU time, and larger
 * differences before smaller ones. */
static int compare_findings(const void *a, const void *b)
{
	const struct finding *x = a, *y = b;

	if (x->what != y->what)
		return (int)x->what - (int)y->what;
	return (x->size < y->size) - (x->size > y->size);
}

/* A time has a sentence even if there are more counts than sentences. */
static void choose(struct result *r, const struct findings *all)
{
	unsigned counts = 0, most;

	while (counts < all->count && all->list[counts].what != JUDGED_COST)
		counts++;
	most = counts < all->count ? FINDINGS_MAX - 1 : FINDINGS_MAX;
	for (unsigned i = 0; i < all->count && r->finding_count < FINDINGS_MAX; i++)
		if (i >= counts || i < most)
			r->findings[r->finding_count++] = all->list[i];
}

/* Does f say that a row takes more CPU time, after a sentence that it makes fewer calls, switches
 * or instructions? */
static bool is_opposite(const struct finding *f, const struct finding *before)
{
	return f->what == JUDGED_COST && f->is == VERDICT_MORE && before->what != JUDGED_COST &&
	       before->is == VERDICT_LESS && !strcmp(before->row->name, f->row->name) &&
	       !strcmp(base_of(before->group), base_of(f->group));
}

static void find_differences(struct result *r)
{
	struct findings all = { 0 };

	for (struct result_at at = { 0 }; result_next(r, &at);)
		for (unsigned i = 0; !at.first && i < JUDGED_FAMILIES; i++)
			if (verdict_decides(at.row->verdicts[i].is))
				add_finding(&all, at.group, at.row, i);
	if (all.count)
		qsort(all.list, all.count, sizeof(*all.list), compare_findings);
	choose(r, &all);
	free(all.list);
	for (unsigned i = 0; i < r->finding_count; i++) {
		struct finding *f = &r->findings[i];

		count_groups(r, f);
		f->opposite = i > 0 && is_opposite(f, f - 1);
	}
}

/* ---- What is open ---- */

static void count_row(struct result *r, const struct result_group *g, const struct result_row *row)
{
	r->open.doubted += row->doubt != DOUBT_NONE;
	r->open.too_few += row->verdicts[JUDGED_COST].is == VERDICT_TOO_FEW_ROUNDS;
	for (unsigned i = 0; i < JUDGED_FAMILIES; i++) {
		enum verdict_is is = row->verdicts[i].is;

		if (is == VERDICT_TOO_FEW_ROUNDS || is == VERDICT_NOT_COMPARABLE)
			continue;
		r->comparisons++;
		r->by_chance += VERDICT_ALPHA / g->comparisons;
		r->open.all[i]++;
		r->open.open[i] += is == VERDICT_UNDECIDED;
		r->open.count += is == VERDICT_UNDECIDED;
	}
}

/* The rounds that would make the interval of each undecided row as narrow as rounds_enough() wants
 * it: intervals are narrower by the square root of the rounds. */
static unsigned rounds_for(const struct result_group *g, enum judged what)
{
	double most = 0;

	for (unsigned i = 1; i < g->count; i++) {
		const struct verdict *v = &g->rows[i].verdicts[what];

		if (v->is == VERDICT_UNDECIDED)
			most = fmax(most,
				    v->rounds * pow(v->half_width / (log1p(g->within) / 2), 2));
	}
	return (unsigned)fmin(ceil(most), 1000000);
}

void findings_make(struct result *r)
{
	enum judged what = JUDGED_COST; /* or, where no time is open, the last count that is */

	find_differences(r);
	for (struct result_at at = { 0 }; result_next(r, &at);)
		if (!at.first)
			count_row(r, at.group, at.row);
	while (what > 0 && !r->open.open[what])
		what--;
	for (unsigned i = 0; i < r->group_count; i++) {
		unsigned rounds = rounds_for(&r->groups[i], what);

		r->open.rounds = MAX(r->open.rounds, rounds);
		r->open.seconds += rounds ? rounds * r->groups[i].round_s : 0;
	}
}
