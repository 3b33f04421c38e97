/* See print.h. */
#include "print.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "curve.h"
#include "field.h"
#include "hosts.h"
#include "human.h"
#include "limit.h"
#include "text.h"
#include "util.h"
#include "words.h"

/* The columns: the names of the row, then all figures, then notes on the row. */
enum {
	COLUMN_LISTENER,
	COLUMN_ENGINE,
	COLUMN_FIGURES,
	COLUMN_AGAINST = COLUMN_FIGURES + FIGURE_COUNT,
	COLUMN_VERDICT,
	COLUMN_COUNT
};

enum { NARROW = 100 }; /* columns, unless --wide */

static struct column column_at(unsigned i)
{
	static const struct column texts[COLUMN_COUNT] = {
		[COLUMN_LISTENER] = { .title = "listener", .left = true },
		[COLUMN_ENGINE] = { .title = "engine", .left = true, .rank = 1 },
		[COLUMN_AGAINST] = { .title = "vs 1st", .optional = true, .apart = true },
		[COLUMN_VERDICT] = { .title = "verdict", .optional = true, .left = true },
	};
	const struct figure_info *f;

	if (i < COLUMN_FIGURES || i >= COLUMN_AGAINST)
		return texts[i];
	f = &figures[i - COLUMN_FIGURES];
	return (struct column){ .title = f->title,
				.unit = f->unit,
				.optional = true,
				.apart = f->apart,
				.rank = f->rank };
}

/* ---- Cells ---- */

/* The cells with the change against the first row, and the verdict on it. */
static void cost_cells(struct table *t, const struct result_group *g, const struct result_row *row)
{
	if (g->count == 1) {
		table_skip(t, 2);
	} else if (row == g->rows) {
		table_cell(t, STYLE_PLAIN, "1st");
		table_skip(t, 1);
	} else {
		enum style style = words_style(row->verdicts[JUDGED_COST].is);

		table_cell(t, style, "%s", words_change(row->change).text);
		table_cell(t, style, "%s", words_row(g, row).text);
	}
}

static void figure_cell(struct table *t, enum figure figure, double value)
{
	if (isnan(value))
		table_skip(t, 1);
	else
		table_text(t, figure_text(figure, value).text);
}

static void add_row(struct table *t, const struct result_group *g, const struct result_row *row)
{
	char bounds[HOSTS_BOUNDS_BYTES];

	table_text(t, row->row->listener);
	table_text(t, measure_engine_name(row->row).text);
	for (unsigned j = 0; j < FIGURE_COUNT; j++)
		if (hosts_bounds(row->row, j, bounds))
			table_text(t, bounds);
		else
			figure_cell(t, j, row->values[j].median);
	cost_cells(t, g, row);
}

static void add_group_heading(struct table *t, const struct result_group *g)
{
	char *tls = words_tls(g), loads[64] = "";
	double apart = 0;

	/* The more requests a turn handles, the less each costs: so costs at different rates
	 * cannot be compared. */
	for (unsigned i = 1; i < g->count; i++)
		apart = fmax(apart, result_rate_apart(g, &g->rows[i]));
	if (apart > g->within && isfinite(apart))
		snprintf(loads, sizeof(loads), ", rates up to %s %% apart",
			 human_percent(apart).text);
	if (g->rounds)
		table_heading(t, STYLE_BOLD, "%s (%s%s, %u round%s%s%s%s)", g->title,
			      figures[g->figures[JUDGED_COST]].words,
			      g->same_work ? " over the generator's" : "", g->rounds,
			      plural(g->rounds), loads, tls ? ", " : "", tls ? tls : "");
	else
		table_heading(t, STYLE_BOLD, "%s%s%s", g->title, tls ? ", " : "", tls ? tls : "");
	free(tls);
}

/* Shows the columns that answer the question, and others in place of those that have no content. */
static void omit_others(struct table *t, const struct result *r, const char *service)
{
	bool shown[COLUMN_COUNT] = {
		[COLUMN_LISTENER] = true, [COLUMN_AGAINST] = true, [COLUMN_VERDICT] = true
	};

	for (unsigned i = 0; i < FIGURE_COUNT; i++)
		shown[COLUMN_FIGURES + i] = figures[i].answer;
	for (struct result_at at = { 0 }; result_next(r, &at);) {
		const enum figure *judged = at.group->figures;

		if (strcmp(at.group->service, service) != 0)
			continue;
		shown[COLUMN_ENGINE] |= !strstr(at.row->row->listener, at.row->row->engine);
		for (unsigned i = 0; i < JUDGED_FAMILIES; i++)
			if (i != JUDGED_SWITCHES && judged[i] != FIGURE_COUNT)
				shown[COLUMN_FIGURES + judged[i]] = true;
		/* A card's work for frames is no thread's. */
		shown[COLUMN_FIGURES + at.group->host] |= !strcmp(at.row->row->engine, "af_xdp");
		/* Busy workers let requests wait before the latency of p50 begins. */
		shown[COLUMN_FIGURES + FIGURE_CYCLE] |=
			!isnan(at.row->values[FIGURE_TURN_P99].median);
		shown[COLUMN_FIGURES + at.group->rate] = true;
	}
	for (unsigned i = 0; i < COLUMN_COUNT; i++)
		if (!shown[i])
			table_omit(t, i);
}

static void render_service(struct output *out, const struct result *r, const char *service,
			   bool wide)
{
	struct column columns[COLUMN_COUNT];
	struct table *t;

	for (unsigned i = 0; i < COLUMN_COUNT; i++)
		columns[i] = column_at(i);
	t = table_new(columns, COLUMN_COUNT);
	if (!wide)
		omit_others(t, r, service);
	for (unsigned i = 0; i < r->group_count; i++) {
		const struct result_group *g = &r->groups[i];

		if (strcmp(g->service, service) != 0)
			continue;
		add_group_heading(t, g);
		for (unsigned j = 0; j < g->count; j++)
			add_row(t, g, &g->rows[j]);
	}
	table_finish(t, out, 2);
}

/* ---- Sentences ---- */

/* Prints and frees the text, unless it is NULL.  title: of its group; NULL: of all groups. */
static void say(struct output *out, enum style style, const char *title, char *text)
{
	if (text)
		output_wrapped(out, style, 2, "%s%s%s", title ? title : "", title ? ": " : "",
			       text);
	free(text);
}

static void render_group_sentences(struct output *out, const struct result *r)
{
	for (unsigned i = 0; i < r->group_count; i++) {
		const struct result_group *g = &r->groups[i];

		bool several = r->group_count > 1; /* of one, what a run ends in has the counts */

		say(out, STYLE_PLAIN, several ? g->title : NULL,
		    words_sides(g, several ? 0 : JUDGED_FAMILIES));
	}
}

static void render_warnings(struct output *out, const struct result *r, bool of_conditions)
{
	bool any = false;

	for (unsigned i = 0; i < r->warning_count; i++)
		if (r->warnings[i].of_conditions == of_conditions) {
			output_wrapped(out, STYLE_WARN, 2, "%s", r->warnings[i].text);
			any = true;
		}
	if (any && of_conditions)
		putc('\n', out->file);
}

/* Names the listeners without operations. */
static void render_idle(struct output *out, const struct result *r, const struct measures *m)
{
	json_t *idle = print_idle(m);
	char *names = field_show(idle);

	if (*names)
		output_wrapped(out, STYLE_WARN, 2, "No operations in the interval: %s", names);
	else if (!r->group_count)
		output_text(out, STYLE_WARN, "No operations in the interval.\n");
	free(names);
	json_decref(idle);
}

void print_answer(struct output *out, const struct result *r)
{
	bool judged = false;

	for (unsigned i = 0; i < r->group_count; i++)
		judged |= r->groups[i].judged;
	if (!judged)
		return;
	for (unsigned i = 0; i < r->finding_count; i++)
		say(out, STYLE_BOLD, NULL, words_finding(r, i));
	say(out, STYLE_PLAIN, NULL, words_open(r));
	if (r->comparisons)
		output_wrapped(
			out, STYLE_DIM, 2,
			"%u comparison%s in this run: if nothing differed, chance alone would "
			"decide up to %.2g of them.",
			r->comparisons, plural(r->comparisons), r->by_chance);
}

void print_result(struct output *out, const struct result *r, const struct measures *m, bool wide)
{
	unsigned width = out->width;

	if (!wide && (width == 0 || width > NARROW))
		out->width = NARROW;
	render_warnings(out, r, true);
	for (unsigned i = 0; i < r->group_count; i++) {
		unsigned first = 0;

		while (strcmp(r->groups[first].service, r->groups[i].service) != 0)
			first++;
		if (first != i)
			continue;
		render_service(out, r, r->groups[i].service, wide);
		putc('\n', out->file);
	}
	render_group_sentences(out, r);
	for (unsigned i = 0; i < r->curve_count; i++)
		say(out, STYLE_BOLD, r->curves[i].title, curve_text(&r->curves[i]));
	render_warnings(out, r, false);
	render_idle(out, r, m);
	out->width = width;
}

/* ---- Gates ---- */

static const enum style gate_styles[GATES] = {
	[GATE_PASSED] = STYLE_GOOD,
	[GATE_FAILED] = STYLE_BAD,
	[GATE_UNDECIDED] = STYLE_WARN,
	[GATE_UNKNOWN] = STYLE_WARN,
};

/* "cost>1us: failed: a (nbd read): 1.20, by its interval 1.10 to 1.30 us." */
static void print_limit(struct output *out, const struct limit_case *c)
{
	const struct figure_info *f = &figures[c->figure];
	const struct value *v = &c->row->values[c->figure];
	char *why =
		c->gate == GATE_UNKNOWN
			? text_new("known in %u visits or blocks of them, it takes %u", v->count,
				   result_least_rounds(1))
			: text_new("%s, by its interval %s to %s %s",
				   figure_text(c->figure, v->median).text,
				   figure_text(c->figure, v->lower).text,
				   figure_text(c->figure, v->upper).text, f->unit ? f->unit : "");

	output_wrapped(out, gate_styles[c->gate], 2, "%s: %s: %s (%s): %s.", c->limit->text,
		       gate_names[c->gate], c->row->row->listener, c->group->title, why);
	free(why);
}

static void print_limits(struct output *out, const struct limits *l)
{
	unsigned counts[GATES] = { 0 };

	for (unsigned i = 0; i < l->count; i++) {
		counts[l->cases[i].gate]++;
		if (l->cases[i].gate != GATE_PASSED)
			print_limit(out, &l->cases[i]);
	}
	if (l->count == 0)
		output_wrapped(out, STYLE_WARN, 2,
			       "--fail-if: there is no row to judge by a limit.");
	else
		output_wrapped(out, gate_styles[l->gate], 2,
			       "--fail-if: of %u row%s and limit%s %u passed, %u failed, %u "
			       "undecided, %u unknown.",
			       l->count, plural(l->count), plural(l->count), counts[GATE_PASSED],
			       counts[GATE_FAILED], counts[GATE_UNDECIDED], counts[GATE_UNKNOWN]);
}

/* Prints how many rows are worse, better or neither, by --against or by pairs. */
static void print_summary(struct output *out, const struct result *r, bool of_pairs)
{
	unsigned counts[GATES] = { 0 }, all = 0, less = 0, other = 0;

	for (struct result_at at = { 0 }; result_next(r, &at);) {
		const struct against_saved *t = of_pairs ? NULL : at.row->saved;
		const struct verdict *v = t ? &t->verdict : &at.row->verdicts[JUDGED_COST];

		if (of_pairs && (at.first || !*at.group->pair))
			continue;
		all++;
		counts[t ? t->gate : of_pairs ? at.row->gate : GATE_UNKNOWN]++;
		less += (t || of_pairs) && v->is == VERDICT_LESS;
		other += t && t->other_setup && v->is == VERDICT_NOT_COMPARABLE;
	}
	output_wrapped(out, gate_styles[of_pairs ? r->pairs_gate : r->against_gate], 2,
		       "Against the %s %u of %u are worse, %u better, %u not worse by more than "
		       "%.3g %%, %u undecided, %u not comparable%s.",
		       of_pairs ? "first of each pair" : "saved rows", counts[GATE_FAILED], all,
		       less, counts[GATE_PASSED] - less, 100 * r->within, counts[GATE_UNDECIDED],
		       counts[GATE_UNKNOWN],
		       other ? ": saved rows are of another command, host, kernel or configuration "
			       "(--force judges them)"
			     : "");
}

void print_gates(struct output *out, const struct result *r)
{
	if (r->against)
		print_against(out, r);
	if (r->limits)
		print_limits(out, r->limits);
	if (r->pairs)
		print_summary(out, r, true);
}

/* ---- Rows beside saved ones ---- */

static void add_saved_row(struct table *t, const struct result *r, const struct result_group *g,
			  const struct result_row *row)
{
	const struct against_saved *saved = row->saved;
	enum figure cost = g->figures[JUDGED_COST];
	enum style style =
		!saved || saved->gate == GATE_UNKNOWN ? STYLE_WARN : words_style(saved->verdict.is);

	table_text(t, row->row->listener);
	figure_cell(t, cost, saved ? saved->before : NAN);
	figure_cell(t, cost, saved ? saved->now : result_cost(g, row)->median);
	figure_cell(t, FIGURE_GENERATOR_PER_REQUEST, saved ? saved->generator_before : NAN);
	figure_cell(t, FIGURE_GENERATOR_PER_REQUEST, saved ? saved->generator_now : NAN);
	table_cell(t, style, "%s", saved ? words_change(saved->verdict.change).text : "");
	table_cell(t, style, "%s", words_against(r, row).text);
}

static void render_saved_rows(struct output *out, const struct result *r)
{
	static const struct column columns[] = {
		{ .title = "listener", .left = true },
		{ .title = "then" },
		{ .title = "now" },
		{ .title = "generator", .unit = "then", .optional = true, .apart = true },
		{ .title = "generator", .unit = "now", .optional = true },
		{ .title = "change", .apart = true },
		{ .title = "verdict", .left = true },
	};
	struct table *t = table_new(columns, ARRAY_SIZE(columns));

	for (unsigned i = 0; i < r->group_count; i++) {
		const struct result_group *g = &r->groups[i];
		enum figure cost = g->figures[JUDGED_COST];

		table_heading(t, STYLE_BOLD, "%s (%s, %s)", g->title, figures[cost].words,
			      figures[cost].unit);
		for (unsigned j = 0; j < g->count; j++)
			add_saved_row(t, r, g, &g->rows[j]);
	}
	fputs(r->group_count ? "\n" : "", out->file);
	table_finish(t, out, 2);
}

void print_against(struct output *out, const struct result *r)
{
	json_t *change;
	size_t i;

	render_saved_rows(out, r);
	if (r->found && json_array_size(r->changed) == 0)
		output_wrapped(
			out, STYLE_DIM, 2,
			"No change is known: host, versions, build, command and keys are the "
			"same, as far as both have saved them.");
	json_array_foreach(r->changed, i, change)
		output_wrapped(out, STYLE_PLAIN, 2, "Changed: %s: %s -> %s",
			       field_text(change, "what"), field_text(change, "then"),
			       field_text(change, "now"));
	print_summary(out, r, false);
}
