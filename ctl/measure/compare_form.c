/* `compare` in the form that programs read: JSON.  See compare_table.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare_gate.h"
#include "compare_group.h"
#include "compare_table.h"
#include "curve.h"
#include "field.h"
#include "hosts.h"
#include "util.h"

/* NULL: the row is the first of its group, or in none. */
static const struct verdict *verdict_on(const struct groups *all, const struct measure *row,
					const struct group **ret_group)
{
	for (struct groups_at at = { 0 }; groups_next(all, &at);)
		if (at.verdict && at.row == row) {
			*ret_group = at.group;
			return at.verdict;
		}
	return NULL;
}

/* The figures beside the cost that can be judged: { "trip99_ns": {...} }. */
static json_t *sides_to_json(const struct group *g, unsigned row)
{
	json_t *sides = json_object();

	for (unsigned i = 0; i < GROUP_SIDE_FIGURES; i++) {
		struct verdict v = group_side_verdict(g, row, i);

		if (v.is != VERDICT_TOO_FEW_ROUNDS)
			json_object_set_new(sides, figures[group_side_figures[i]].name,
					    verdict_to_json(&v));
	}
	return sides;
}

/* The verdict on a row with `tls = kernel` against that with `tls = user`; NULL: there is none. */
static json_t *user_to_json(const struct group *g, unsigned row)
{
	unsigned user = group_user_row(g, row);
	struct verdict v;
	json_t *made;

	if (!user)
		return NULL;
	v = group_user_verdict(g, row);
	made = verdict_to_json(&v);
	json_object_set_new(made, "against", json_string(g->rows[user]->listener));
	return made;
}

static json_t *verdict_on_to_json(const struct groups *all, const struct measure *row)
{
	const struct group *g;
	const struct verdict *v = verdict_on(all, row, &g);

	if (!v)
		return json_null();
	return json_pack(
		"{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:i, s:i, s:f, s:s, s:o, s:o*}",
		"against", g->rows[0]->listener, "figure", figures[g->cost].name, "change",
		field_real(v->change), "low", field_real(v->low), "high", field_real(v->high),
		"level", json_real(1 - VERDICT_ALPHA_ROUNDS / g->comparisons), "level_reached",
		field_real(v->level), "p", field_real(v->p), "rounds", (int)v->rounds,
		"least_rounds", (int)v->least, "comparisons", (int)g->comparisons, "within",
		g->within, "is", verdict_names[v->is], "beside",
		sides_to_json(g, (unsigned)(v - g->verdicts)), "user",
		user_to_json(g, (unsigned)(v - g->verdicts)));
}

static json_t *derived_to_json(const struct measure *row)
{
	json_t *derived = json_object(), *spread = json_object(), *hosts;

	for (unsigned i = 0; i < FIGURE_COUNT; i++) {
		struct spread s = figure_spread(row, i);

		json_object_set_new(derived, figures[i].name, field_real(s.median));
		if (s.count > 1)
			json_object_set_new(spread, figures[i].name,
					    json_pack("[f, f]", s.low, s.high));
	}
	json_object_set_new(derived, "visits", json_integer(measure_visits(row)));
	json_object_set_new(derived, "spread", spread);
	hosts = hosts_to_json(row);
	if (hosts)
		json_object_set_new(derived, "hosts", hosts);
	return derived;
}

json_t *compare_to_json(const struct measures *m)
{
	json_t *rows = json_array(), *absent = json_array(), *listener, *document;
	struct groups groups;
	char *conclusion;
	size_t index;

	groups_init(&groups, m);
	for (unsigned i = 0; i < m->count; i++) {
		json_t *row = measure_to_json(m->rows[i]);

		json_object_set_new(row, "derived", derived_to_json(m->rows[i]));
		json_object_set_new(row, "verdict", verdict_on_to_json(&groups, m->rows[i]));
		json_array_append_new(rows, row);
	}
	json_array_foreach(m->unavailable, index, listener)
		json_array_append_new(absent, json_pack("{s:s, s:s}", "listener",
							field_text(listener, "name"), "reason",
							field_text(listener, "reason")));
	conclusion = groups_conclusion(&groups);
	document = json_pack("{s:o, s:o, s:s?, s:o*}", "rows", rows, "unavailable", absent,
			     "conclusion", conclusion, "sweeps", curves_to_json(&groups));
	groups_fini(&groups);
	free(conclusion);
	return document;
}
