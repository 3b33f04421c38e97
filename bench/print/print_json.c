/* See print.h. */
#include "print.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "curve.h"
#include "field.h"
#include "hosts.h"
#include "limit.h"
#include "measure_file.h"
#include "measure_visits.h"
#include "words.h"

enum { RESULT_SCHEMA = 3 };

static const char *const judged_names[JUDGED_COUNT] = {
	[JUDGED_CALLS] = "calls",
	[JUDGED_SWITCHES] = "switches",
	[JUDGED_INSTRUCTIONS] = "instructions",
	[JUDGED_CYCLES] = "cycles",
	[JUDGED_COST] = "cost",
	[JUDGED_RATE] = "rate",
	[JUDGED_TRIP50] = "trip50",
	[JUDGED_TRIP99] = "trip99",
};

static json_t *value_to_json(const struct value *v)
{
	return json_pack("{s:o, s:i, s:o, s:o}", "median", field_real(v->median), "count",
			 (int)v->count, "lower", field_real(v->lower), "upper",
			 field_real(v->upper));
}

static json_t *verdict_to_json(const struct verdict *v)
{
	return json_pack("{s:s, s:o, s:o, s:o, s:i, s:i}", "is", verdict_names[v->is], "change",
			 field_real(v->change), "low", field_real(v->low), "high",
			 field_real(v->high), "rounds", (int)v->rounds, "least", (int)v->least);
}

static json_t *against_to_json(const struct against_saved *t)
{
	return json_pack("{s:o, s:o, s:i, s:i, s:b, s:o, s:o, s:b, s:o, s:s}", "before",
			 field_real(t->before), "now", field_real(t->now), "runs_before",
			 (int)t->runs_before, "runs_now", (int)t->runs_now, "other_setup",
			 t->other_setup, "generator_before", field_real(t->generator_before),
			 "generator_now", field_real(t->generator_now), "machine_changed",
			 t->machine_changed, "verdict", verdict_to_json(&t->verdict), "gate",
			 gate_names[t->gate]);
}

static json_t *verdicts_to_json(const struct result_group *g, const struct result_row *row)
{
	json_t *made = json_object();

	for (unsigned i = 0; i < JUDGED_COUNT; i++)
		if (g->figures[i] != FIGURE_COUNT && row != g->rows)
			json_object_set_new(made, judged_names[i],
					    verdict_to_json(&row->verdicts[i]));
	return made;
}

static json_t *row_to_json(const struct result_group *g, const struct result_row *row)
{
	json_t *made = measure_to_json(row->row), *values = json_object();

	for (unsigned i = 0; i < FIGURE_COUNT; i++)
		json_object_set_new(values, figures[i].name, value_to_json(&row->values[i]));
	json_object_update_new(
		made,
		json_pack("{s:s, s:i, s:o, s:o, s:o, s:s, s:i, s:i, s:b, s:b, s:s, s:o*, s:o*}",
			  "name", row->name, "visits", (int)measure_visits(row->row), "values",
			  values, "verdicts", verdicts_to_json(g, row), "change",
			  field_real(row->change), "doubt", doubt_infos[row->doubt].name, "doubted",
			  (int)row->doubted, "failed", (int)row->failed, "generator_limit",
			  row->generator_limit, "link_limit", row->link_limit, "gate",
			  gate_names[row->gate], "against",
			  row->saved ? against_to_json(row->saved) : NULL, "hosts",
			  hosts_to_json(row->row)));
	return made;
}

static json_t *group_to_json(const struct result_group *g)
{
	json_t *rows = json_array(), *judged = json_object();

	for (unsigned i = 0; i < g->count; i++)
		json_array_append_new(rows, row_to_json(g, &g->rows[i]));
	for (unsigned i = 0; i < JUDGED_COUNT; i++)
		if (g->figures[i] != FIGURE_COUNT)
			json_object_set_new(judged, judged_names[i],
					    json_string(figures[g->figures[i]].name));
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:i, s:i, s:b, s:b, s:o, s:o}", "title",
			 g->title, "service", g->service, "label", g->label, "operation",
			 g->operation, "pair", g->pair, "figures", judged, "comparisons",
			 (int)g->comparisons, "rounds", (int)g->rounds, "judged", g->judged,
			 "same_work", g->same_work, "round_s", field_real(g->round_s), "rows",
			 rows);
}

/* ---- Curves ---- */

static json_t *curve_to_json(const struct result_curve *c)
{
	json_t *values = json_array(), *made;
	char *text = curve_text(c);

	for (unsigned i = 0; i < c->count; i++)
		json_array_append_new(values, json_string(curve_value(c, i)));
	made = json_pack("{s:s, s:s, s:o, s:s?}", "name", c->name, "title", c->title, "values",
			 values, "text", text);
	free(text);
	return made;
}

/* ---- The end of a run ---- */

/* Takes ownership of text. */
static json_t *text_to_json(char *text)
{
	json_t *made = text ? json_string(text) : json_null();

	free(text);
	return made;
}

static json_t *finding_to_json(const struct result *r, unsigned i)
{
	const struct finding *f = &r->findings[i];

	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:f, s:f, s:i, s:i, s:b, s:o}", "what",
			 judged_names[f->what], "figure", figures[f->group->figures[f->what]].name,
			 "is", verdict_names[f->is], "group", f->group->title, "listener",
			 f->row->row->listener, "low", f->low, "high", f->high, "groups",
			 (int)f->groups, "all", (int)f->all, "opposite", f->opposite, "text",
			 text_to_json(words_finding(r, i)));
}

static json_t *open_to_json(const struct result *r)
{
	const struct open *o = &r->open;
	json_t *made = json_pack("{s:i, s:i, s:o, s:i, s:i, s:o}", "count", (int)o->count, "rounds",
				 (int)o->rounds, "seconds", field_real(o->seconds), "too_few",
				 (int)o->too_few, "doubted", (int)o->doubted, "text",
				 text_to_json(words_open(r)));

	for (unsigned i = 0; i < JUDGED_FAMILIES; i++)
		json_object_set_new(
			made, judged_names[i],
			json_pack("{s:i, s:i}", "open", (int)o->open[i], "all", (int)o->all[i]));
	return made;
}

static json_t *limits_to_json(const struct limits *l)
{
	json_t *made = json_array();

	for (unsigned i = 0; l && i < l->count; i++) {
		const struct limit_case *c = &l->cases[i];

		json_array_append_new(
			made, json_pack("{s:s, s:s, s:s, s:s, s:o, s:s}", "limit", c->limit->text,
					"listener", c->row->row->listener, "group", c->group->title,
					"figure", figures[c->figure].name, "value",
					value_to_json(&c->row->values[c->figure]), "is",
					gate_names[c->gate]));
	}
	return made;
}

json_t *print_idle(const struct measures *m)
{
	json_t *idle = json_array();

	for (unsigned i = 0; i < m->count; i++)
		if (m->rows[i]->count == 0)
			field_add_once(idle, json_string(m->rows[i]->listener));
	return idle;
}

static json_t *gates_to_json(const struct result *r)
{
	json_t *made = json_pack("{s:s}", "all", gate_names[r->gate]);

	if (r->against)
		json_object_set_new(made, "against", json_string(gate_names[r->against_gate]));
	if (r->limits)
		json_object_set_new(made, "limits", json_string(gate_names[r->limits->gate]));
	if (r->pairs)
		json_object_set_new(made, "pairs", json_string(gate_names[r->pairs_gate]));
	return made;
}

json_t *print_json(const struct result *r, const struct measures *m)
{
	json_t *groups = json_array(), *curves = json_array(), *warnings = json_array(),
	       *findings = json_array();

	for (unsigned i = 0; i < r->group_count; i++)
		json_array_append_new(groups, group_to_json(&r->groups[i]));
	for (unsigned i = 0; i < r->curve_count; i++)
		json_array_append_new(curves, curve_to_json(&r->curves[i]));
	for (unsigned i = 0; i < r->warning_count; i++)
		json_array_append_new(warnings, json_pack("{s:s, s:s}", "kind", r->warnings[i].kind,
							  "text", r->warnings[i].text));
	for (unsigned i = 0; i < r->finding_count; i++)
		json_array_append_new(findings, finding_to_json(r, i));
	return json_pack(
		"{s:i, s:f, s:o, s:o, s:o, s:o, s:o, s:i, s:f, s:s, s:o, s:o, s:O*, s:o, s:o}",
		"schema", RESULT_SCHEMA, "within", r->within, "groups", groups, "curves", curves,
		"warnings", warnings, "findings", findings, "open", open_to_json(r), "comparisons",
		(int)r->comparisons, "by_chance", r->by_chance, "minor", r->minor, "unavailable",
		r->unavailable ? json_deep_copy(r->unavailable) : json_array(), "idle",
		print_idle(m), "changed", r->changed, "limits", limits_to_json(r->limits), "gates",
		gates_to_json(r));
}
