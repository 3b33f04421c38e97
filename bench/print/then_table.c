/* See then_table.h. */
#include "then_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "words.h"

enum {
	COLUMN_LISTENER,
	COLUMN_THEN,
	COLUMN_NOW,
	COLUMN_GENERATOR_THEN,
	COLUMN_GENERATOR_NOW,
	COLUMN_CHANGE,
	COLUMN_VERDICT,
	COLUMN_COUNT
};

static void time_cell(struct table *t, enum figure figure, double value)
{
	if (isnan(value))
		table_skip(t, 1);
	else
		table_text(t, figure_text(figure, value).text);
}

static void add_row(struct table *t, const struct result *r, const struct result_group *g,
		    const struct result_row *row)
{
	const struct then *then = row->then;
	enum figure cost = g->figures[JUDGED_COST];
	enum style style = !then || then->gate == GATE_NOT_COMPARABLE
				   ? STYLE_WARN
				   : words_style(then->verdict.is);

	table_text(t, row->row->listener);
	time_cell(t, cost, then ? then->before : NAN);
	time_cell(t, cost, then ? then->now : result_cost(g, row)->median);
	time_cell(t, FIGURE_GENERATOR_PER_REQUEST, then ? then->generator_before : NAN);
	time_cell(t, FIGURE_GENERATOR_PER_REQUEST, then ? then->generator_now : NAN);
	table_cell(t, style, "%s", then ? words_change(then->verdict.change).text : "");
	table_cell(t, style, "%s", words_then(r, row).text);
}

static void render_rows(struct output *out, const struct result *r)
{
	static const struct column columns[COLUMN_COUNT] = {
		[COLUMN_LISTENER] = { .title = "listener", .left = true },
		[COLUMN_THEN] = { .title = "then" },
		[COLUMN_NOW] = { .title = "now" },
		[COLUMN_GENERATOR_THEN] = { .title = "generator",
					    .unit = "then",
					    .optional = true,
					    .apart = true },
		[COLUMN_GENERATOR_NOW] = { .title = "generator", .unit = "now", .optional = true },
		[COLUMN_CHANGE] = { .title = "change", .apart = true },
		[COLUMN_VERDICT] = { .title = "verdict", .left = true },
	};
	struct table *t = table_new(columns, COLUMN_COUNT);

	for (unsigned i = 0; i < r->group_count; i++) {
		const struct result_group *g = &r->groups[i];
		enum figure cost = g->figures[JUDGED_COST];

		table_heading(t, STYLE_BOLD, "%s (%s, %s)", g->title, figures[cost].words,
			      figures[cost].unit);
		for (unsigned j = 0; j < g->count; j++)
			add_row(t, r, g, &g->rows[j]);
	}
	fputs(r->group_count ? "\n" : "", out->file);
	table_finish(t, out, 2);
}

void then_render(struct output *out, const struct result *r)
{
	char *summary = words_then_summary(r);
	json_t *change;
	size_t i;

	render_rows(out, r);
	if (r->found && json_array_size(r->changed) == 0)
		output_wrapped(out, STYLE_DIM, 2, "%s", words_nothing_changed);
	json_array_foreach(r->changed, i, change)
		output_wrapped(out, STYLE_PLAIN, 2, "Changed: %s: %s -> %s",
			       field_text(change, "what"), field_text(change, "then"),
			       field_text(change, "now"));
	output_wrapped(out, gate_styles[r->against_gate], 2, "%s", summary);
	free(summary);
}
