/* Rows against limits.  See limit.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "field.h"
#include "figure.h"
#include "limit.h"
#include "must.h"
#include "util.h"

/* As in verdict.c: the end of an interval that is nearer to the limit than this is at the limit. */
static const double tiny = 1e-9;

static bool knows_requests(const struct group *g)
{
	for (unsigned i = 0; i < g->count; i++)
		if (isnan(figure_spread(g->rows[i], FIGURE_REQUEST_RATE).median))
			return false;
	return true;
}

static enum figure figure_of(const struct limit *l, const struct group *g)
{
	if (l->cost)
		return g->cost;
	return l->rate && knows_requests(g) ? FIGURE_REQUEST_RATE : l->figure;
}

static void add_case(struct limits *to, const struct limit *l, const struct group *g, unsigned row)
{
	enum figure figure = figure_of(l, g);

	/* Cases may move: nothing points to one before all are there. */
	to->cases = must(reallocarray(to->cases, to->count + 1, sizeof(*to->cases)));
	to->cases[to->count++] =
		(struct limit_case){ .limit = l,
				     .group = g,
				     .row = row,
				     .figure = figure,
				     .value = figure_spread(g->rows[row], figure).median };
}

/* The limit and the figure of each visit; returns how many there are. */
static unsigned collect(const struct limit_case *c, double *bounds, double *values)
{
	const struct measure *row = c->group->rows[c->row];
	unsigned count = 0;

	for (unsigned i = 0; i < measure_visits(row); i++) {
		const struct measure *visit = measure_visit_at(row, i), *first = NULL;

		if (c->limit->of_first && !(first = visit_beside(c->group->rows[0], visit)))
			continue;
		bounds[count] = c->limit->value * (first ? figure_value(first, c->figure) : 1);
		values[count++] = figure_value(visit, c->figure);
	}
	return count;
}

static enum gate gate_by(const struct verdict *v, bool below)
{
	if (v->is == VERDICT_TOO_FEW_ROUNDS)
		return GATE_NOT_COMPARABLE;
	if (below ? v->high < -tiny : v->low > tiny)
		return GATE_WORSE;
	return (below ? v->low >= -tiny : v->high <= tiny) ? GATE_PASSED : GATE_UNDECIDED;
}

/* One block holds the limits of all visits and, behind them, the values. */
static void judge(struct limit_case *c, unsigned comparisons)
{
	unsigned visits = measure_visits(c->group->rows[c->row]), count;
	double *numbers = must(calloc(2 * (size_t)visits, sizeof(*numbers)));

	count = collect(c, numbers, numbers + visits);
	c->verdict = verdict_of(numbers, numbers + visits, count, comparisons, WITHIN_DEFAULT);
	c->gate = gate_by(&c->verdict, c->limit->below);
	free(numbers);
}

void limits_judge(struct limits *ret, const struct limit *list, unsigned count,
		  const struct measures *m)
{
	unsigned counts[GATES] = { 0 };

	*ret = (struct limits){};
	groups_init(&ret->groups, m);
	for (unsigned i = 0; i < count; i++)
		for (unsigned j = 0; j < ret->groups.count; j++) {
			const struct group *g = &ret->groups.list[j];

			/* The first row is no case of a factor of itself. */
			for (unsigned row = list[i].of_first; row < g->count; row++)
				add_case(ret, &list[i], g, row);
		}
	for (unsigned i = 0; i < ret->count; i++) {
		/* The intervals of all cases hold together, so each has its share of the errors. */
		judge(&ret->cases[i], ret->count);
		counts[ret->cases[i].gate]++;
	}
	ret->gate = gate_of_all(counts);
}

void limits_fini(struct limits *l)
{
	groups_fini(&l->groups);
	free(l->cases);
}

/* ---- Words ---- */

struct phrase limit_case_text(const struct limit_case *c)
{
	const struct figure_info *f = &figures[c->figure];
	const struct verdict *v = &c->verdict;
	unsigned visits = measure_visits(c->group->rows[c->row]);
	struct phrase p;

	if (c->gate != GATE_NOT_COMPARABLE)
		snprintf(p.text, sizeof(p.text), "%s %s, %+.1f to %+.1f %% from the limit",
			 figure_text(c->figure, c->value).text, f->unit, 100 * v->low,
			 100 * v->high);
	else if (v->rounds < visits)
		snprintf(p.text, sizeof(p.text), "known in %u of %u visits, it takes %u", v->rounds,
			 visits, v->least);
	else
		snprintf(p.text, sizeof(p.text), "too few rounds: %u of %u", v->rounds, v->least);
	return p;
}

static const char *const said[GATES] = {
	[GATE_PASSED] = "passed",
	[GATE_WORSE] = "failed",
	[GATE_UNDECIDED] = "undecided",
	[GATE_NOT_COMPARABLE] = "unknown",
};

void limits_render(struct output *out, const struct limits *l)
{
	unsigned counts[GATES] = { 0 };

	for (unsigned i = 0; i < l->count; i++) {
		const struct limit_case *c = &l->cases[i];
		char *title = group_title(c->group);

		counts[c->gate]++;
		if (c->gate != GATE_PASSED)
			output_wrapped(out, gate_styles[c->gate], 2, "%s: %s: %s (%s): %s.",
				       c->limit->text, said[c->gate],
				       c->group->rows[c->row]->listener, title,
				       limit_case_text(c).text);
		free(title);
	}
	if (l->count == 0)
		output_wrapped(out, STYLE_WARN, 2,
			       "--fail-if: there is no row to judge by a limit.");
	else
		output_wrapped(out, gate_styles[l->gate], 2,
			       "--fail-if: of %u row%s and limit%s %u passed, %u failed, %u "
			       "undecided, %u unknown.",
			       l->count, plural(l->count), plural(l->count), counts[GATE_PASSED],
			       counts[GATE_WORSE], counts[GATE_UNDECIDED],
			       counts[GATE_NOT_COMPARABLE]);
}

json_t *limits_to_json(const struct limits *l)
{
	json_t *made = json_array();

	for (unsigned i = 0; i < l->count; i++) {
		const struct limit_case *c = &l->cases[i];

		json_array_append_new(
			made,
			json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:i, s:i, s:s}",
				  "limit", c->limit->text, "listener",
				  c->group->rows[c->row]->listener, "label", c->group->label,
				  "service", c->group->service, "operation", c->group->operation,
				  "figure", figures[c->figure].name, "value", field_real(c->value),
				  "low", field_real(c->verdict.low), "high",
				  field_real(c->verdict.high), "rounds", (int)c->verdict.rounds,
				  "least_rounds", (int)c->verdict.least, "is", said[c->gate]));
	}
	return made;
}
