/* Bars.  See report_chart.h; report_curve.c has the percentiles, report_forest.c the overview. */
#include "report_chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"
#include "render.h"
#include "svg.h"
#include "text.h"
#include "util.h"

enum { EDGE = 10 }; /* left and right of everything */

/* ---- Colours ---- */

static void *engine_of(const struct report *r, const struct measure *row)
{
	return json_object_iter_at(r->engines, compare_engine_text(row).text);
}

unsigned report_engine(const struct report *r, const struct measure *row)
{
	return (unsigned)json_integer_value(json_object_iter_value(engine_of(r, row)));
}

const char *report_engine_name(const struct report *r, const struct measure *row)
{
	return json_object_iter_key(engine_of(r, row));
}

static void add_engine(struct report *r, const struct measure *row)
{
	json_int_t count = (json_int_t)json_object_size(r->engines);
	struct phrase engine = compare_engine_text(row);

	if (!json_object_get(r->engines, engine.text))
		json_object_set_new_nocheck(r->engines, engine.text, json_integer(count));
}

void report_init_groups(struct report *r, struct groups groups, const char *title, const char *base)
{
	*r = (struct report){
		.groups = groups, .base = base, .title = title, .engines = json_object()
	};
	for (struct groups_at at = { 0 }; groups_next(&r->groups, &at);)
		add_engine(r, at.row);
}

void report_init(struct report *r, const struct measures *m)
{
	struct groups groups;

	groups_init(&groups, m);
	report_init_groups(r, groups, "CPU cost against the first listener of each load", NULL);
}

void report_fini(struct report *r)
{
	groups_fini(&r->groups);
	json_decref(r->engines);
}

unsigned report_series(const struct report *r, const struct group *g, unsigned i)
{
	bool *seen = must(calloc(json_object_size(r->engines), sizeof(*seen)));
	unsigned series = report_engine(r, g->rows[i]);

	for (unsigned j = 0; j < g->count; j++) {
		unsigned engine = report_engine(r, g->rows[j]);

		if (seen[engine])
			series = i;
		seen[engine] = true;
	}
	free(seen);
	return series;
}

/* ---- Units ---- */

const char *page_unit(enum figure figure)
{
	const char *unit = figures[figure].unit;

	return !unit ? "" : !strcmp(unit, "us") ? "\xc2\xb5s" : unit;
}

/* ---- Bars: a row is a line of text with a bar under it ---- */

enum { ROW_HEIGHT = 42, BAR_TOP = 18, BAR_HEIGHT = 14, AXIS_HEIGHT = 22, LEGEND_LINE = 18 };

struct bars {
	const struct report *report;
	const struct group *group;
	enum figure figure;
	const char *unit;
	bool is_cost; /* with parts and verdicts */
	struct scale x;
	unsigned count; /* of rows that are drawn */
	double top;     /* of the first row */
};

static bool has_parts(const struct measure *row)
{
	return row->cpu_user_ns || row->cpu_system_ns;
}

static bool has_softirq(const struct measure *row)
{
	return row->machine.softirq_ns > 0;
}

/* Softirq time of the whole machine in the unit of the cost; 0: unknown. */
static double softirq_cost(const struct measure *row, double cost)
{
	return row->cpu_ns > 0 && cost > 0
		       ? cost * (double)row->machine.softirq_ns / (double)row->cpu_ns
		       : 0;
}

static void bars_init(struct bars *b)
{
	double most = 0;

	b->count = MIN(b->group->count, (unsigned)CHART_ROWS_MAX);
	for (unsigned i = 0; i < b->count; i++) {
		struct spread s = figure_spread(b->group->rows[i], b->figure);

		if (isnan(s.median))
			continue;
		most = fmax(most, s.high);
		if (b->is_cost)
			most = fmax(most, s.median + softirq_cost(b->group->rows[i], s.median));
	}
	b->x = (struct scale){ 0,
			       most > 0 && isfinite(most) ? most * figures[b->figure].scale * 1.02
							  : 1,
			       EDGE, CHART_WIDTH - EDGE, false };
}

static double bars_bottom(const struct bars *b)
{
	return b->top + b->count * ROW_HEIGHT;
}

void chart_axis(FILE *to, const struct scale *x, const char *unit, double top, double bottom)
{
	struct ticks ticks = { .count = 0 };

	ticks_round(&ticks, x, 60);
	for (unsigned i = 0; i < ticks.count; i++) {
		double at = scale_at(x, ticks.values[i]);
		const char *class = i == 0                        ? "dim"
				    : at > CHART_WIDTH - 4 * EDGE ? "dim end"
								  : "dim middle";

		svg_line(to, "grid", at, top, at, bottom);
		svg_text(to, class, at, bottom + 15, "%.9g%s%s", ticks.values[i],
			 i + 1 == ticks.count ? " " : "", i + 1 == ticks.count ? unit : "");
	}
}

static void bar_spread(FILE *to, const struct bars *b, const struct spread *s, double y)
{
	double low = scale_at(&b->x, s->low * figures[b->figure].scale),
	       high = scale_at(&b->x, s->high * figures[b->figure].scale);

	if (s->count < 2)
		return;
	svg_line(to, "halo", low, y, high, y);
	svg_line(to, "whisker", low, y, high, y);
	svg_line(to, "whisker", low, y - 4, low, y + 4);
	svg_line(to, "whisker", high, y - 4, high, y + 4);
}

static void bar_parts(FILE *to, const struct bars *b, unsigned i, double cost, double y)
{
	const struct measure *row = b->group->rows[i];
	double parts[] = { cost, 0, b->is_cost ? softirq_cost(row, cost) : 0 }, sum = 0;
	const char *classes[] = { "plain", "system", "softirq" };
	char series[16];

	if (!b->is_cost) {
		snprintf(series, sizeof(series), "bar %s",
			 svg_series_class(report_series(b->report, b->group, i)));
		classes[0] = series;
	} else if (row->cpu_ns && has_parts(row)) {
		parts[0] = cost * (double)row->cpu_user_ns / (double)row->cpu_ns;
		parts[1] = cost - parts[0];
		classes[0] = "user";
	}
	for (unsigned part = 0; part < ARRAY_SIZE(parts); part++) {
		double from = scale_at(&b->x, sum * figures[b->figure].scale),
		       end = scale_at(&b->x, (sum + parts[part]) * figures[b->figure].scale);

		svg_rect(to, classes[part], from, y, end - from, BAR_HEIGHT);
		sum += parts[part];
	}
}

/* "4.17 us, 0.6 to 5.8 % less" */
static void bar_value(FILE *to, const struct bars *b, unsigned i, double value, double y)
{
	bool judged = b->is_cost && i > 0 && group_is_judged(b->group);

	if (isnan(value))
		svg_text(to, "dim end", CHART_WIDTH - EDGE, y, "unknown");
	else
		svg_text(to, "end strong", CHART_WIDTH - EDGE, y, "%s%s%s%s%s",
			 figure_text(b->figure, value).text, *b->unit ? " " : "", b->unit,
			 judged ? ", " : "", judged ? group_verdict_text(b->group, i).text : "");
}

static void bar_row(FILE *to, const struct bars *b, unsigned i)
{
	const struct measure *row = b->group->rows[i];
	struct spread s = figure_spread(row, b->figure);
	double y = b->top + i * ROW_HEIGHT;

	svg_mark(to, report_series(b->report, b->group, i), true, EDGE + 4, y + 8);
	svg_text_fit(to, "name", EDGE + 14, y + 12, b->is_cost ? 190 : 290, row->listener);
	bar_value(to, b, i, s.median, y + 12);
	if (isnan(s.median))
		return;
	bar_parts(to, b, i, s.median, y + BAR_TOP);
	bar_spread(to, b, &s, y + BAR_TOP + BAR_HEIGHT / 2.0);
}

static void cost_band(FILE *to, const struct bars *b)
{
	double base = group_cost(b->group, 0) * figures[b->figure].scale, within = b->group->within,
	       low, high;

	if (!group_is_judged(b->group) || isnan(base))
		return;
	low = scale_at(&b->x, base / (1 + within));
	high = scale_at(&b->x, base * (1 + within));
	svg_rect(to, "band", low, b->top, high - low, bars_bottom(b) - b->top);
	svg_line(to, "bandedge", low, b->top, low, bars_bottom(b));
	svg_line(to, "bandedge", high, b->top, high, bars_bottom(b));
}

static void bars_draw(FILE *to, const struct bars *b)
{
	chart_axis(to, &b->x, b->unit, b->top, bars_bottom(b));
	for (unsigned i = 0; i < b->count; i++)
		bar_row(to, b, i);
}

/* ---- The legend of parts ---- */

double chart_legend(FILE *to, const struct chart_key *keys, unsigned count, double width, double y)
{
	double x = EDGE;

	for (unsigned i = 0; i < count; i++) {
		double room = 18 + 6.2 * text_width(keys[i].text) + 12;

		if (!keys[i].shown)
			continue;
		if (x > EDGE && x + room > width) {
			x = EDGE;
			y += LEGEND_LINE;
		}
		svg_rect(to, keys[i].class, x, y - 10, 12, 12);
		svg_text(to, "dim", x + 18, y, "%s", keys[i].text);
		x += room;
	}
	return y + LEGEND_LINE - 10;
}

static bool any_row(const struct group *g, bool (*has)(const struct measure *row))
{
	for (unsigned i = 0; i < g->count; i++)
		if (has(g->rows[i]))
			return true;
	return false;
}

void chart_cost(FILE *to, const struct report *r, const struct group *g, const char *style)
{
	struct bars b = { .report = r,
			  .group = g,
			  .figure = g->cost,
			  .unit = page_unit(g->cost),
			  .is_cost = true,
			  .top = style ? 28 : 4 };
	const struct chart_key keys[] = {
		{ "user", "user", any_row(g, has_parts) },
		{ "system", "system", any_row(g, has_parts) },
		{ "plain", "CPU", !any_row(g, has_parts) },
		{ "softirq", "softirq of the whole machine", any_row(g, has_softirq) },
		{ "band", "the same as the first", group_is_judged(g) },
	};
	char *title = group_title(g), *body;
	FILE *drawn = text_open(&body);
	double bottom;

	bars_init(&b);
	bars_draw(drawn, &b);
	cost_band(drawn, &b);
	bottom = chart_legend(drawn, keys, ARRAY_SIZE(keys), CHART_WIDTH,
			      bars_bottom(&b) + AXIS_HEIGHT + 12);
	if (style)
		svg_text_fit(drawn, "head", EDGE, 18, CHART_WIDTH - 6 * EDGE, title);
	svg_put(to, drawn, &body, CHART_WIDTH, bottom, figures[g->cost].words, style);
	free(title);
}

void chart_calls(FILE *to, const struct report *r, const struct group *g)
{
	struct bars b = {
		.report = r, .group = g, .figure = FIGURE_SYSCALLS_PER_OP, .unit = "", .top = 4
	};

	bars_init(&b);
	svg_begin(to, CHART_WIDTH, bars_bottom(&b) + AXIS_HEIGHT, "System calls per operation",
		  NULL);
	bars_draw(to, &b);
	svg_end(to);
}
