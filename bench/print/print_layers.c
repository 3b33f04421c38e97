/* See print.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "human.h"
#include "layers_group.h"
#include "print.h"
#include "text.h"
#include "util.h"
#include "words.h"

/* ---- The table: a line for each layer, the listeners side by side ---- */

/* "-0.21 ±0.05", in the unit of the cost. */
static void difference_cell(struct table *t, const struct result_group *g, const struct verdict *v)
{
	struct phrase text = { "-" };
	double reach = fmax(v->high - v->change, v->change - v->low);

	if (!isnan(v->change) && !isnan(reach))
		snprintf(text.text, sizeof(text.text), "%s%.12s \xc2\xb1%.12s",
			 v->change < 0 ? "-" : "+",
			 figure_text(g->figures[JUDGED_COST], fabs(v->change)).text,
			 figure_text(g->figures[JUDGED_COST], reach).text);
	table_cell(t, words_style(v->is), "%s", text.text);
}

static void value_cell(struct table *t, const struct result_group *g, const struct layers_row *row,
		       double ns)
{
	if (row->known && ns > 0)
		table_text(t, figure_text(g->figures[JUDGED_COST], ns).text);
	else
		table_cell(t, STYLE_DIM, "%s", row->known ? "0" : "-");
}

enum { LISTENERS_MAX = 12 }; /* side by side */

static unsigned shown_of(const struct result_group *g)
{
	return MIN(g->count, (unsigned)LISTENERS_MAX);
}

/* Columns: the layer, then of each listener its time and, but for the first, the difference.
 * Returns how many there are, 2 * LISTENERS_MAX at most. */
static unsigned set_columns(const struct result_group *g, struct column *columns)
{
	const char *unit = figures[g->figures[JUDGED_COST]].unit;
	unsigned count = 0;

	columns[count++] = (struct column){ .title = "layer", .left = true };
	for (unsigned i = 0; i < shown_of(g); i++) {
		columns[count++] = (struct column){ .title = g->rows[i].row->listener,
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
	for (unsigned i = 0; i < shown_of(l->group); i++) {
		value_cell(t, l->group, &l->rows[i], l->rows[i].ns[layer]);
		if (i > 0)
			difference_cell(t, l->group, &l->rows[i].verdicts[layer]);
	}
}

static void sum_line(struct table *t, const struct layers_group *l)
{
	table_cell(t, STYLE_BOLD, "sum");
	for (unsigned i = 0; i < shown_of(l->group); i++) {
		value_cell(t, l->group, &l->rows[i],
			   result_cost(l->group, &l->group->rows[i])->median);
		if (i > 0)
			table_skip(t, 1);
	}
}

/* How much was sampled, and the largest functions that no layer names. */
static void render_samples(struct output *out, const char *listener, const struct layers_row *row)
{
	char *text, seen[64] = "";
	const char *name, *before = "; other: ";
	FILE *to = text_open(&text);
	json_t *share;

	if (!isnan(row->seen))
		snprintf(seen, sizeof(seen), " are %.1f \xc2\xb1%.1f %% of its CPU time",
			 row->seen * 100, row->seen_chance * 100);
	fprintf(to, "%s: %s samples%s, %s lost", listener, human_count(row->samples).text, seen,
		human_count(row->lost).text);
	json_object_foreach(row->other, name, share) {
		fprintf(to, "%s%s %s %%", before, name, human_percent(json_real_value(share)).text);
		before = ", ";
	}
	fclose(to);
	output_wrapped(out, STYLE_DIM, 2, "%s.", text);
	free(text);
}

static void render_notes(struct output *out, const struct layers_group *l)
{
	bool stripped = false, fewer = false, more = false;

	for (unsigned i = 0; i < l->group->count; i++) {
		const struct layers_row *row = &l->rows[i];
		double off = LAYERS_SEEN_WITHIN + row->seen_chance;

		if (row->samples)
			render_samples(out, l->group->rows[i].row->listener, row);
		stripped |= row->stripped;
		fewer |= row->seen < 1 - off;
		more |= row->seen > 1 + off;
	}
	output_wrapped(out, STYLE_DIM, 2,
		       "A layer costs its share of the samples times the CPU time charged.");
	if (more)
		output_wrapped(
			out, STYLE_WARN, 2,
			"The time of the samples is more than a listener's CPU time by more "
			"than 2 %% and chance: the shares of layers may be wrong by as much.");
	if (fewer)
		output_wrapped(out, STYLE_WARN, 2,
			       "Samples find less than the time charged, which begins before the "
			       "kernel has switched to a thread: scheduling costs more than is "
			       "shown, by up to that, and other layers less.");
	if (stripped)
		output_wrapped(
			out, STYLE_WARN, 2,
			"nbserved has no symbols (it was stripped): service, engine and store "
			"are part of its core.");
}

static void render_group(struct output *out, const struct layers_group *l)
{
	const struct result_group *g = l->group;
	struct column columns[2 * LISTENERS_MAX]; /* borrowed by the table */
	struct table *t = table_new(columns, set_columns(g, columns));

	table_heading(t, STYLE_BOLD, "%s: %s by layer", g->title,
		      figures[g->figures[JUDGED_COST]].words);
	for (unsigned i = 0; i < LAYER_COUNT; i++)
		if (l->shown[i])
			layer_line(t, l, i);
	sum_line(t, l);
	putc('\n', out->file);
	table_finish(t, out, 0);
	render_notes(out, l);
}

void print_layers(struct output *out, const struct result *r)
{
	for (unsigned i = 0; i < r->group_count; i++)
		if (r->groups[i].layers)
			render_group(out, r->groups[i].layers);
}

/* ---- JSON ---- */

static json_t *row_to_json(const struct layers_group *l, unsigned i)
{
	const struct layers_row *row = &l->rows[i];
	json_t *layers = json_object();
	double cost = result_cost(l->group, &l->group->rows[i])->median;

	for (unsigned j = 0; j < LAYER_COUNT; j++) {
		json_t *layer;

		if (!l->shown[j])
			continue;
		layer = json_pack("{s:o, s:o}", "ns", field_real(row->ns[j]), "share",
				  field_real(row->ns[j] / cost));
		if (i > 0)
			json_object_set_new(layer, "verdict",
					    print_verdict_json(&row->verdicts[j]));
		json_object_set_new(layers, layer_infos[j].name, layer);
	}
	return json_pack("{s:s, s:o, s:o, s:O, s:I, s:I, s:o, s:o}", "listener",
			 l->group->rows[i].row->listener, "cost", field_real(cost), "layers",
			 layers, "other_functions", row->other, "samples", (json_int_t)row->samples,
			 "lost", (json_int_t)row->lost, "sampled_share", field_real(row->seen),
			 "sampled_chance", field_real(row->seen_chance));
}

static json_t *group_to_json(const struct layers_group *l)
{
	const struct result_group *g = l->group;
	json_t *listeners = json_array();

	for (unsigned i = 0; i < g->count; i++)
		if (l->rows[i].known)
			json_array_append_new(listeners, row_to_json(l, i));
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o}", "service", g->service, "operation",
			 g->operation, "label", g->label, "pair", g->pair, "figure",
			 figures[g->figures[JUDGED_COST]].name, "listeners", listeners);
}

json_t *print_layers_json(const struct result *r)
{
	json_t *list = NULL;

	for (unsigned i = 0; i < r->group_count; i++)
		if (r->groups[i].layers) {
			list = list ? list : json_array();
			json_array_append_new(list, group_to_json(r->groups[i].layers));
		}
	return list;
}
