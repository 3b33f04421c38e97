/* The table of layers and its JSON.  See layers_group.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare_gate.h"
#include "compare_table.h"
#include "field.h"
#include "human.h"
#include "layers_group.h"
#include "must.h"
#include "render.h"
#include "util.h"

/* ---- The table: a line for each layer, the listeners side by side ---- */

/* "-0.21 ±0.05", in the unit of the cost. */
static void difference_cell(struct table *t, const struct group *g, const struct verdict *v)
{
	struct phrase text = { "-" };
	double reach = fmax(v->high - v->change, v->change - v->low);

	if (!isnan(v->change) && !isnan(reach))
		snprintf(text.text, sizeof(text.text), "%s%.12s \xc2\xb1%.12s",
			 v->change < 0 ? "-" : "+", figure_text(g->cost, fabs(v->change)).text,
			 figure_text(g->cost, reach).text);
	table_cell(t, verdict_style(v->is), "%s", text.text);
}

static void value_cell(struct table *t, const struct group *g, const struct layers_row *row,
		       double ns)
{
	if (row->known && ns > 0)
		table_text(t, figure_text(g->cost, ns).text);
	else
		table_cell(t, STYLE_DIM, "%s", row->known ? "0" : "-");
}

/* A line about the listeners; text() is of one of them, "-" so far. */
static void about(struct table *t, const struct layers_group *l, const char *title,
		  void (*text)(const struct layers_row *row, struct phrase *p))
{
	table_cell(t, STYLE_DIM, "%s", title);
	for (unsigned i = 0; i < l->group->count; i++) {
		struct phrase p = { "-" };

		text(&l->rows[i], &p);
		table_cell(t, STYLE_DIM, "%s", p.text);
		if (i > 0)
			table_skip(t, 1);
	}
}

static void samples_text(const struct layers_row *row, struct phrase *p)
{
	snprintf(p->text, sizeof(p->text), "%s", human_count(row->samples).text);
}

static void lost_text(const struct layers_row *row, struct phrase *p)
{
	snprintf(p->text, sizeof(p->text), "%s", human_count(row->lost).text);
}

static void seen_text(const struct layers_row *row, struct phrase *p)
{
	if (!isnan(row->seen))
		snprintf(p->text, sizeof(p->text), "%.1f \xc2\xb1%.1f %%", row->seen * 100,
			 row->seen_chance * 100);
}

enum { LISTENERS_MAX = 12 }; /* side by side */

/* Columns: the layer, then of each listener its time and, but for the first, the difference.
 * Returns how many there are, 2 * LISTENERS_MAX at most. */
static unsigned set_columns(const struct group *g, struct column *columns)
{
	const char *unit = figures[g->cost].unit;
	unsigned count = 0;

	columns[count++] = (struct column){ .title = "layer", .left = true };
	for (unsigned i = 0; i < g->count; i++) {
		columns[count++] = (struct column){ .title = g->rows[i]->listener,
						    .unit = unit,
						    .apart = true };
		if (i > 0)
			columns[count++] = (struct column){ .title = "vs 1st", .unit = unit };
	}
	return count;
}

static void layer_line(struct table *t, const struct layers_group *l, enum layer layer)
{
	table_text(t, layer_infos[layer].words);
	for (unsigned i = 0; i < l->group->count; i++) {
		value_cell(t, l->group, &l->rows[i], l->rows[i].ns[layer]);
		if (i > 0)
			difference_cell(t, l->group, &l->rows[i].verdicts[layer]);
	}
}

static void sum_line(struct table *t, const struct layers_group *l)
{
	table_cell(t, STYLE_BOLD, "sum");
	for (unsigned i = 0; i < l->group->count; i++) {
		value_cell(t, l->group, &l->rows[i], group_cost(l->group, i));
		if (i > 0)
			table_skip(t, 1);
	}
}

static void render_notes(struct output *out, const struct layers_group *l)
{
	char *warnings = layers_warnings(l);

	for (unsigned i = 0; i < l->group->count; i++) {
		char *other = layers_other(l, i);

		if (other)
			output_wrapped(out, STYLE_DIM, 2, "%s", other);
		free(other);
	}
	output_wrapped(out, STYLE_DIM, 2,
		       "A layer costs its share of the samples times the CPU time charged; sampled "
		       "is the samples' own time against that, and how far chance may put it off.");
	if (warnings)
		output_wrapped(out, STYLE_WARN, 2, "%s", warnings);
	free(warnings);
}

static void render_group(struct output *out, const struct layers_group *l)
{
	const struct group *g = l->group;
	struct column columns[2 * LISTENERS_MAX]; /* borrowed by the table */
	struct table *t = table_new(columns, set_columns(g, columns));
	char *title = group_title(g);

	table_heading(t, STYLE_BOLD, "%s: %s by layer", title, figures[g->cost].words);
	for (unsigned i = 0; i < LAYER_COUNT; i++)
		if (l->shown[i])
			layer_line(t, l, i);
	sum_line(t, l);
	about(t, l, "samples", samples_text);
	about(t, l, "lost", lost_text);
	about(t, l, "sampled", seen_text);
	putc('\n', out->file);
	table_finish(t, out, 0);
	render_notes(out, l);
	free(title);
}

void layers_render(struct output *out, const struct measures *m)
{
	struct groups groups;

	groups_init(&groups, m);
	for (unsigned i = 0; i < groups.count; i++) {
		struct group few = groups.list[i];
		struct layers_group l;

		few.count = MIN(few.count, (unsigned)LISTENERS_MAX);
		if (!layers_group_init(&l, &few))
			continue;
		render_group(out, &l);
		layers_group_fini(&l);
	}
	groups_fini(&groups);
}

/* ---- JSON ---- */

static json_t *judged_to_json(const struct verdict *v)
{
	json_t *made = verdict_to_json(v);

	json_object_set_new(made, "rounds", json_integer(v->rounds));
	json_object_set_new(made, "least_rounds", json_integer(v->least));
	return made;
}

static json_t *row_to_json(const struct layers_group *l, unsigned i)
{
	const struct layers_row *row = &l->rows[i];
	json_t *layers = json_object(), *other = json_object();
	double cost = group_cost(l->group, i);

	for (unsigned j = 0; j < LAYER_COUNT; j++) {
		json_t *layer;

		if (!l->shown[j])
			continue;
		layer = json_pack("{s:o, s:o}", "ns", field_real(row->ns[j]), "share",
				  field_real(row->ns[j] / cost));
		if (i > 0)
			json_object_set_new(layer, "verdict", judged_to_json(&row->verdicts[j]));
		json_object_set_new(layers, layer_infos[j].name, layer);
	}
	for (unsigned j = 0; j < LAYERS_OTHER_SHOWN && row->other[j].name; j++)
		json_object_set_new(other, row->other[j].name, json_real(row->other[j].share));
	return json_pack("{s:s, s:o, s:o, s:o, s:I, s:I, s:o, s:o}", "listener",
			 l->group->rows[i]->listener, "cost", field_real(cost), "layers", layers,
			 "other_functions", other, "samples", (json_int_t)row->samples, "lost",
			 (json_int_t)row->lost, "sampled_share", field_real(row->seen),
			 "sampled_chance", field_real(row->seen_chance));
}

static json_t *group_to_json(const struct layers_group *l)
{
	const struct group *g = l->group;
	json_t *listeners = json_array();

	for (unsigned i = 0; i < g->count; i++)
		if (l->rows[i].known)
			json_array_append_new(listeners, row_to_json(l, i));
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o}", "service", g->service, "operation",
			 g->operation, "label", g->label, "pair", g->pair, "figure",
			 figures[g->cost].name, "listeners", listeners);
}

void layers_add_json(json_t *document, const struct measures *m)
{
	json_t *list = json_array();
	struct groups groups;

	groups_init(&groups, m);
	for (unsigned i = 0; i < groups.count; i++) {
		struct layers_group l;

		if (!layers_group_init(&l, &groups.list[i]))
			continue;
		json_array_append_new(list, group_to_json(&l));
		layers_group_fini(&l);
	}
	groups_fini(&groups);
	if (json_array_size(list))
		json_object_set(document, "layers", list);
	json_decref(list);
}
