/* Rendering of rows that measure.c made.  See compare_table.h. */
#include "compare_table.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare_gate.h"
#include "compare_group.h"
#include "curve.h"
#include "field.h"
#include "hosts.h"
#include "hosts_words.h"
#include "human.h"
#include "text.h"
#include "util.h"

/* The columns: the names of the row, then all figures, then notes on the row. */
enum {
	COLUMN_LISTENER,
	COLUMN_ENGINE,
	COLUMN_FIGURES,
	COLUMN_AGAINST = COLUMN_FIGURES + FIGURE_COUNT,
	COLUMN_VERDICT,
	COLUMN_COUNT
};
static_assert(COLUMN_COUNT <= 64, "a bit of a column set each");

enum { NARROW = 100 }; /* columns, unless --wide */

static const struct text_column {
	const char *name, *meaning;
	struct column column;
} text_columns[COLUMN_COUNT] = {
	[COLUMN_LISTENER] = { "listener", "the row's name", { .title = "listener", .left = true } },
	[COLUMN_ENGINE] = { "engine",
			    "its engine, with the features that the configuration asks for",
			    { .title = "engine", .left = true, .rank = 1 } },
	[COLUMN_AGAINST] = { "vs",
			     "the estimated change of the cost against the first row of the group, "
			     "by the ratios in the same rounds",
			     { .title = "vs 1st", .optional = true, .apart = true } },
	[COLUMN_VERDICT] = { "verdict",
			     "the interval of the change, and what it decides",
			     { .title = "verdict", .optional = true, .left = true } },
};

static const struct figure_info *figure_of(unsigned column)
{
	return column >= COLUMN_FIGURES && column < COLUMN_AGAINST
		       ? &figures[column - COLUMN_FIGURES]
		       : NULL;
}

static struct column column_at(unsigned i)
{
	const struct figure_info *f = figure_of(i);

	return f ? (struct column){ .title = f->title,
				    .unit = f->unit,
				    .optional = true,
				    .apart = f->apart,
				    .rank = f->rank }
		 : text_columns[i].column;
}

const char *compare_column_name(unsigned i)
{
	if (i >= COLUMN_COUNT)
		return NULL;
	return figure_of(i) ? figure_of(i)->name : text_columns[i].name;
}

struct human compare_column_heading(unsigned i)
{
	struct column c = column_at(i);
	struct human text;

	snprintf(text.text, sizeof(text.text), "%s%s%s", c.title,
		 c.unit && *c.unit != '/' ? " " : "", c.unit ? c.unit : "");
	return text;
}

const char *compare_column_meaning(unsigned i)
{
	return figure_of(i) ? figure_of(i)->meaning : text_columns[i].meaning;
}

bool compare_columns_add(column_set *set, const char *name, size_t bytes)
{
	const char *column;

	for (unsigned i = 0; (column = compare_column_name(i)); i++)
		if (strlen(column) == bytes && !strncmp(column, name, bytes)) {
			*set |= UINT64_C(1) << i;
			return true;
		}
	return false;
}

/* ---- Cells ---- */

void compare_figure_cell(struct table *t, const struct measure *row, enum figure figure)
{
	struct human text = figure_text(figure, figure_spread(row, figure).median);
	char bounds[HOSTS_BOUNDS_BYTES];

	if (hosts_bounds(row, figure, bounds))
		table_text(t, bounds);
	else
		table_cell(t, *text.text ? STYLE_PLAIN : STYLE_DIM, "%s",
			   *text.text ? text.text : "-");
}

/* The cells with the change against the first row, and the verdict on it. */
static void verdict_cells(struct table *t, const struct group *g, unsigned i)
{
	if (g->count == 1) {
		table_skip(t, 2);
	} else if (i == 0) {
		table_cell(t, STYLE_PLAIN, "1st");
		table_skip(t, 1);
	} else {
		enum style style = verdict_style(g->verdicts[i].is);

		table_cell(t, style, "%s", group_change_text(g, i).text);
		table_cell(t, style, "%s", group_verdict_text(g, i).text);
	}
}

static void add_row(struct table *t, const struct group *g, unsigned i)
{
	const struct measure *row = g->rows[i];

	table_text(t, row->listener);
	table_text(t, compare_engine_text(row).text);
	for (unsigned j = 0; j < FIGURE_COUNT; j++)
		if (isnan(figure_spread(row, j).median))
			table_skip(t, 1);
		else
			compare_figure_cell(t, row, j);
	verdict_cells(t, g, i);
}

static void add_group_heading(struct table *t, const struct group *g)
{
	char *title = group_title(g), *tls = group_tls(g);
	unsigned rounds = group_rounds(g);
	char loads[64] = "";
	double apart = 0;

	/* The more requests a turn handles, the less each costs: so costs at different rates
	 * cannot be compared. */
	for (unsigned i = 1; i < g->count; i++)
		apart = fmax(apart, group_rate_apart(g, i));
	if (apart > g->within && isfinite(apart))
		snprintf(loads, sizeof(loads), ", rates up to %s %% apart",
			 human_percent(apart).text);
	if (rounds)
		table_heading(t, STYLE_BOLD, "%s (%s, %u round%s%s%s%s)", title,
			      figures[g->cost].words, rounds, plural(rounds), loads,
			      tls ? ", " : "", tls ? tls : "");
	else
		table_heading(t, STYLE_BOLD, "%s%s%s", title, tls ? ", " : "", tls ? tls : "");
	free(title);
	free(tls);
}

/* The columns that answer the question, and others in place of those that have no content. */
static column_set answers(const struct groups *all, const char *service)
{
	bool shown[COLUMN_COUNT] = { [COLUMN_AGAINST] = true, [COLUMN_VERDICT] = true };
	column_set set = 0;

	for (unsigned i = 0; i < FIGURE_COUNT; i++)
		shown[COLUMN_FIGURES + i] = figures[i].answer;
	for (unsigned i = 0; i < all->count; i++) {
		const struct group *g = &all->list[i];

		for (unsigned j = 0; j < g->count && !strcmp(g->service, service); j++) {
			shown[COLUMN_ENGINE] |= !strstr(g->rows[j]->listener, g->rows[j]->engine);
			shown[COLUMN_FIGURES + g->cost] = true;
			/* Busy workers let requests wait before the latency of p50 begins. */
			shown[COLUMN_FIGURES + FIGURE_CYCLE] |=
				!isnan(figure_value(g->rows[j], FIGURE_TURN_P99));
			shown[COLUMN_FIGURES + FIGURE_RATE] |= g->cost == FIGURE_CPU_PER_OP;
			shown[COLUMN_FIGURES + FIGURE_BANDWIDTH] |= g->cost == FIGURE_CPU_PER_BYTE;
		}
	}
	for (unsigned i = 0; i < COLUMN_COUNT; i++)
		set |= (column_set)shown[i] << i;
	return set;
}

static void take_columns(struct table *t, column_set set)
{
	set |= UINT64_C(1) << COLUMN_LISTENER;
	for (unsigned i = 0; i < COLUMN_COUNT; i++)
		if (!(set >> i & 1))
			table_omit(t, i);
}

static void render_service(struct output *out, const struct groups *all, const char *service,
			   column_set wanted)
{
	struct column columns[COLUMN_COUNT];
	struct table *t;

	for (unsigned i = 0; i < COLUMN_COUNT; i++)
		columns[i] = column_at(i);
	t = table_new(columns, COLUMN_COUNT);
	take_columns(t, wanted == COLUMNS_ANSWER ? answers(all, service) : wanted);
	for (unsigned i = 0; i < all->count; i++) {
		const struct group *g = &all->list[i];

		if (strcmp(g->service, service))
			continue;
		add_group_heading(t, g);
		for (unsigned j = 0; j < g->count; j++)
			add_row(t, g, j);
	}
	table_finish(t, out, 2);
}

/* ---- Footer ---- */

static void render_steps(struct output *out, const struct groups *all)
{
	const char *last = "";

	for (struct groups_at at = { 0 }; groups_next(all, &at);) {
		const char *name = at.row->generator.name;
		uint64_t step_ns = generator_step_ns(name), ns;

		if (!step_ns || !strcmp(name, last) || !measure_trip(at.row, 0.99, &ns))
			continue;
		last = name;
		output_wrapped(out, STYLE_DIM, 2,
			       "%s prints round trips in steps of %s: trip50 and trip99 "
			       "are no finer.",
			       name, human_time(step_ns).text);
	}
}

static void render_conditions(struct output *out, const struct groups *all)
{
	char *text = groups_conditions(all);

	for (char *line = text ? strtok(text, "\n") : NULL; line; line = strtok(NULL, "\n"))
		output_wrapped(out, STYLE_WARN, 2, "%s", line);
	if (text)
		putc('\n', out->file);
	free(text);
}

/* A sentence about each group, or NULL. */
static void render_each(struct output *out, const struct groups *all,
			char *(*sentence)(const struct group *g))
{
	for (unsigned i = 0; i < all->count; i++) {
		char *text = sentence(&all->list[i]), *title = group_title(&all->list[i]);

		if (text && all->count > 1)
			output_wrapped(out, STYLE_PLAIN, 2, "%s: %s", title, text);
		else if (text)
			output_wrapped(out, STYLE_PLAIN, 2, "%s", text);
		free(text);
		free(title);
	}
}

/* A sentence about each curve of a sweep. */
static void render_curves(struct output *out, const struct groups *all)
{
	struct curves curves;

	curves_init(&curves, all);
	for (unsigned i = 0; i < curves.count; i++) {
		char *title = curve_title(&curves.list[i]), *text = curve_text(&curves.list[i]);

		if (text)
			output_wrapped(out, STYLE_BOLD, 2, "%s: %s", title, text);
		free(title);
		free(text);
	}
	curves_fini(&curves);
}

/* Warnings that a reader of the table must know. */
static void render_warnings(struct output *out, const struct groups *all)
{
	uint64_t errors = 0;

	for (struct groups_at at = { 0 }; groups_next(all, &at);)
		errors += at.row->errors;
	if (errors)
		output_wrapped(out, STYLE_BAD, 2, "%s operation%s failed.",
			       human_count(errors).text, plural(errors));
	for (unsigned i = 0; i < GROUPS_WARNINGS; i++) {
		char *text = groups_warnings[i](all);

		if (text)
			output_wrapped(out, STYLE_WARN, 2, "%s", text);
		free(text);
	}
	render_steps(out, all);
	if (*all->minor)
		output_wrapped(out, STYLE_DIM, 2,
			       "Not shown, as less than 2 %% of their listener's operations: %s.",
			       all->minor);
}

/* Names the listeners without operations; any: others had some. */
static void render_idle(struct output *out, const struct measures *m, bool any)
{
	const char *last = "";
	char *names = NULL;
	FILE *to = text_open(&names);

	for (unsigned i = 0; i < m->count; i++) {
		const struct measure *row = m->rows[i];

		if (row->listener_count || !strcmp(row->listener, last))
			continue;
		last = row->listener;
		fprintf(to, "%s%s", ftell(to) ? ", " : "", last);
		if (figure_value(row, FIGURE_CPU_SHARE) >= 0.01)
			fprintf(to, " (CPU %s %%)",
				figure_text(FIGURE_CPU_SHARE, figure_value(row, FIGURE_CPU_SHARE))
					.text);
	}
	fclose(to);
	if (*names)
		output_wrapped(out, STYLE_WARN, 2, "No operations in the interval: %s", names);
	else if (!any)
		output_text(out, STYLE_WARN, "No operations in the interval.\n");
	free(names);
}

void compare_render(struct output *out, const struct measures *m, column_set wanted)
{
	unsigned width = out->width;
	struct groups all;

	if (wanted == COLUMNS_ANSWER && (width == 0 || width > NARROW))
		out->width = NARROW;

	groups_init(&all, m);
	render_conditions(out, &all);
	for (unsigned i = 0; i < all.count; i++) {
		unsigned first = 0;

		while (strcmp(all.list[first].service, all.list[i].service))
			first++;
		if (first != i)
			continue;
		render_service(out, &all, all.list[i].service, wanted);
		putc('\n', out->file);
	}
	hosts_render(out, &all);
	render_each(out, &all, group_user);
	render_each(out, &all, group_side);
	render_curves(out, &all);
	render_warnings(out, &all);
	render_idle(out, m, all.count > 0);
	groups_fini(&all);
	out->width = width;
}
