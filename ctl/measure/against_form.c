/* Then and now as a table and as JSON.  See against.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "against.h"
#include "field.h"
#include "figure.h"
#include "text.h"

const char against_nothing_changed[] =
	"No change is known: host, versions, build, command and keys are the same, as far as both have saved them.";

struct phrase against_words(const struct against *a, unsigned i)
{
	const struct against_row *row = &a->rows[i];
	const struct group *g = &a->groups.list[i];
	struct phrase p;

	if (g->count < 2)
		snprintf(p.text, sizeof(p.text), "no saved row");
	else if (g->verdicts[1].is == VERDICT_TOO_FEW_ROUNDS)
		snprintf(p.text, sizeof(p.text), "too few runs: %u now, %u then, of %u",
			 row->runs_now, row->runs_then, g->verdicts[1].least);
	else
		p = group_verdict_text(g, 1);
	return p;
}

char *against_summary(const struct against *a)
{
	unsigned counts[GATES] = { 0 }, less = 0, other = 0;

	for (unsigned i = 0; i < a->groups.count; i++) {
		counts[a->rows[i].gate]++;
		less += a->groups.list[i].verdicts[1].is == VERDICT_LESS;
		other += a->groups.list[i].verdicts[1].is == VERDICT_NOT_COMPARABLE;
	}
	return text_new(
		"Against the saved rows %u of %u are worse, %u better, %u not worse by more "
		"than %.3g %%, %u undecided, %u not comparable%s.",
		counts[GATE_WORSE], a->groups.count, less, counts[GATE_PASSED] - less,
		100 * a->within, counts[GATE_UNDECIDED], counts[GATE_NOT_COMPARABLE],
		other ? ": saved rows are of another command, host, kernel or configuration "
			"(--force judges them)"
		      : "");
}

/* ---- The table ---- */

enum { COLUMN_LISTENER, COLUMN_THEN, COLUMN_NOW, COLUMN_CHANGE, COLUMN_VERDICT, COLUMN_COUNT };

static enum style style_of(const struct against *a, unsigned i)
{
	return a->rows[i].gate == GATE_NOT_COMPARABLE
		       ? STYLE_WARN
		       : verdict_style(a->groups.list[i].verdicts[1].is);
}

static void add_row(struct table *t, const struct against *a, unsigned i)
{
	const struct against_row *row = &a->rows[i];
	const struct group *g = &a->groups.list[i];
	enum style style = style_of(a, i);

	table_text(t, g->rows[g->count - 1]->listener);
	table_text(t, figure_text(g->cost, row->then).text);
	table_text(t, figure_text(g->cost, row->now).text);
	table_cell(t, style, "%s", g->count > 1 ? group_change_text(g, 1).text : "");
	table_cell(t, style, "%s", against_words(a, i).text);
}

static bool is_of_heading(const struct group *g, const struct group *before)
{
	return before && g->cost == before->cost && !strcmp(g->service, before->service) &&
	       !strcmp(g->operation, before->operation) && !strcmp(g->label, before->label);
}

static void add_heading(struct table *t, const struct group *g)
{
	struct group load = *g;
	char *title;

	load.pair = "";
	title = group_title(&load);
	table_heading(t, STYLE_BOLD, "%s (%s, %s)", title, figures[g->cost].words,
		      figures[g->cost].unit);
	free(title);
}

static void render_rows(struct output *out, const struct against *a)
{
	static const struct column columns[COLUMN_COUNT] = {
		[COLUMN_LISTENER] = { .title = "listener", .left = true },
		[COLUMN_THEN] = { .title = "then" },
		[COLUMN_NOW] = { .title = "now" },
		[COLUMN_CHANGE] = { .title = "change", .apart = true },
		[COLUMN_VERDICT] = { .title = "verdict", .left = true },
	};
	const struct group *last = NULL;
	struct table *t = table_new(columns, COLUMN_COUNT);

	for (unsigned i = 0; i < a->groups.count; i++) {
		const struct group *g = &a->groups.list[i];

		if (!is_of_heading(g, last))
			add_heading(t, g);
		last = g;
		add_row(t, a, i);
	}
	fputs(a->groups.count ? "\n" : "", out->file);
	table_finish(t, out, 2);
}

void against_render(struct output *out, const struct against *a)
{
	char *summary = against_summary(a);
	json_t *change;
	size_t i;

	render_rows(out, a);
	if (a->found && json_array_size(a->changed) == 0)
		output_wrapped(out, STYLE_DIM, 2, "%s", against_nothing_changed);
	json_array_foreach(a->changed, i, change)
		output_wrapped(out, STYLE_PLAIN, 2, "Changed: %s: %s -> %s",
			       field_text(change, "what"), field_text(change, "then"),
			       field_text(change, "now"));
	output_wrapped(out, gate_styles[a->gate], 2, "%s", summary);
	free(summary);
}

/* ---- JSON ---- */

static json_t *row_to_json(const struct against *a, unsigned i)
{
	const struct group *g = &a->groups.list[i];
	const struct against_row *row = &a->rows[i];
	const struct verdict *v = &g->verdicts[1];
	bool known = g->count > 1;

	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:i, s:i, s:o, s:o, s:o, s:s, s:s}",
			 "listener", g->rows[g->count - 1]->listener, "label", g->label, "service",
			 g->service, "operation", g->operation, "figure", figures[g->cost].name,
			 "then", field_real(row->then), "now", field_real(row->now), "runs_then",
			 (int)row->runs_then, "runs_now", (int)row->runs_now, "change",
			 field_real(known ? v->change : NAN), "low",
			 field_real(known ? v->low : NAN), "high",
			 field_real(known ? v->high : NAN), "is",
			 verdict_names[known ? v->is : VERDICT_NOT_COMPARABLE], "gate",
			 gate_names[row->gate]);
}

json_t *against_to_json(const struct against *a)
{
	json_t *rows = json_array();

	for (unsigned i = 0; i < a->groups.count; i++)
		json_array_append_new(rows, row_to_json(a, i));
	return json_pack("{s:o, s:O, s:f, s:s}", "rows", rows, "changed", a->changed, "within",
			 a->within, "gate", gate_names[a->gate]);
}
