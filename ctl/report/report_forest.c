/* Forest plots: of each load and each of its rows but the first, the estimated change of cost
 * against the first with its interval.  See report_chart.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "render.h"
#include "report_chart.h"
#include "svg.h"
#include "text.h"
#include "util.h"

enum { EDGE = 10, STRIP_LINE = 20, STRIP_ROW = 15, STRIP_GAP = 8, AXIS = 20, LEGEND_LINE = 18 };
enum { VERDICT_WIDTH = 150 }; /* of the words beside an interval */

/* The groups that are drawn: all of the report, or one. */
struct forest {
	const struct report *report;
	const struct group *groups;
	unsigned count;
};

static unsigned rows_drawn(const struct group *g)
{
	return MIN(g->count, (unsigned)CHART_ROWS_MAX);
}

/* Rows are told apart by their engines, those of a single group by their own names. */
static unsigned series_of(const struct forest *f, const struct group *g, unsigned row)
{
	return f->count == 1 ? report_series(f->report, g, row)
			     : report_engine(f->report, g->rows[row]);
}

static const char *name_of(const struct forest *f, const struct group *g, unsigned row)
{
	return f->count == 1 ? g->rows[row]->listener : report_engine_name(f->report, g->rows[row]);
}

/* Draws the names and marks of rows that are drawn; returns the y below them. */
static double forest_legend(FILE *to, const struct forest *f, double width, double y)
{
	json_t *named = json_object();
	double x = EDGE;

	for (unsigned i = 0; i < f->count; i++)
		for (unsigned j = 1; j < rows_drawn(&f->groups[i]); j++) {
			const char *name = name_of(f, &f->groups[i], j);
			double room = 14 + 6.7 * text_width(name) + 14;

			if (json_object_get(named, name))
				continue;
			json_object_set_new(named, name, json_true());
			if (x > EDGE && x + room > width) {
				x = EDGE;
				y += LEGEND_LINE;
			}
			svg_mark(to, series_of(f, &f->groups[i], j), true, x + 4, y - 4);
			svg_text(to, "name", x + 14, y, "%s", name);
			x += room;
		}
	json_decref(named);
	return y + 12;
}

/* Costs beyond these ratios are drawn at the edge. */
static const double RATIO_MIN = 0.1, RATIO_MAX = 10;

/* An end of a row's interval as a ratio, or its estimate where it has none. */
static double ratio_of(const struct group *g, unsigned i, double end)
{
	return 1 + (isnan(end) ? group_change(g, i) : end);
}

static struct scale forest_scale(const struct forest *f, double width)
{
	double low = 0.85, high = 1.15;

	for (unsigned i = 0; i < f->count; i++) {
		const struct group *g = &f->groups[i];

		for (unsigned j = 1; j < g->count; j++) {
			low = fmin(low, ratio_of(g, j, g->verdicts[j].low));
			high = fmax(high, ratio_of(g, j, g->verdicts[j].high));
		}
	}
	return (struct scale){ fmax(low * 0.97, RATIO_MIN), fmin(high * 1.03, RATIO_MAX), EDGE + 6,
			       width - EDGE - VERDICT_WIDTH, true };
}

static void forest_axis(FILE *to, const struct scale *x, const char *first, double top,
			double bottom)
{
	static const double ratios[] = { 1,   0.5, 2,   0.8,  1.2,  0.2, 5, 0.9, 1.1,
					 0.7, 1.5, 0.6, 0.95, 1.05, 0.3, 3, 0.1, 10 };
	struct ticks ticks = { .count = 0 };

	for (unsigned i = 0; i < ARRAY_SIZE(ratios); i++)
		ticks_add(&ticks, x, ratios[i], 52);
	for (unsigned i = 0; i < ticks.count; i++) {
		double at = scale_at(x, ticks.values[i]), percent = 100 * (ticks.values[i] - 1);
		const char *class = at < x->start + 26 ? "dim"
				    : at > x->end - 26 ? "dim end"
						       : "dim middle";

		svg_line(to, i ? "grid" : "axis", at, top, at, bottom);
		if (i == 0)
			svg_text(to, class, at, bottom + 14, "%s", first);
		else
			svg_text(to, class, at, bottom + 14, "%s%.0f %%",
				 percent < 0 ? "\xe2\x88\x92" : "+", fabs(percent));
	}
}

static const char *base_of(const struct forest *f)
{
	if (f->report->base)
		return f->report->base;
	return f->count == 1 ? f->groups->rows[0]->listener : "the first";
}

static double strip_height(const struct group *g)
{
	return STRIP_LINE + STRIP_ROW * (rows_drawn(g) - 1) + STRIP_GAP;
}

static bool is_hollow(enum verdict_is is)
{
	return is == VERDICT_UNDECIDED || is == VERDICT_TOO_FEW_ROUNDS ||
	       is == VERDICT_NOT_COMPARABLE;
}

/* Names what is drawn, and no more. */
static void forest_caption(FILE *to, const struct forest *f, double y)
{
	bool intervals = false, hollow = false;

	for (unsigned i = 0; i < f->count; i++)
		for (unsigned j = 1; j < rows_drawn(&f->groups[i]); j++) {
			intervals |= !isnan(f->groups[i].verdicts[j].low);
			hollow |= is_hollow(f->groups[i].verdicts[j].is);
		}
	svg_text(to, "dim", EDGE, y, "left: less CPU%s%s; grey: the same",
		 intervals ? "; lines: intervals" : "", hollow ? "; hollow: undecided" : "");
}

static void forest_row(FILE *to, const struct forest *f, const struct group *g, unsigned i,
		       const struct scale *x, double y)
{
	const struct verdict *v = &g->verdicts[i];
	unsigned series = series_of(f, g, i);
	char class[16];

	svg_text(to, "dim", x->end + 10, y + 4, "%s", group_verdict_text(g, i).text);
	if (!(1 + group_change(g, i) > 0))
		return;
	snprintf(class, sizeof(class), "interval %s", svg_series_class(series));
	svg_line(to, class, scale_at(x, ratio_of(g, i, v->low)), y,
		 scale_at(x, ratio_of(g, i, v->high)), y);
	svg_mark(to, series, !is_hollow(v->is), scale_at(x, 1 + group_change(g, i)), y);
}

static void forest_group(FILE *to, const struct forest *f, const struct group *g,
			 const struct scale *x, double y)
{
	unsigned count = rows_drawn(g);
	double top = y + STRIP_LINE - 4, same = scale_at(x, 1 / (1 + g->within));
	char *title = group_title(g);

	svg_text_fit(to, "name", EDGE, y + 10, x->end + VERDICT_WIDTH - 2 * EDGE, title);
	free(title);
	svg_rect(to, "band", same, top, scale_at(x, 1 + g->within) - same, STRIP_ROW * (count - 1));
	for (unsigned i = 1; i < count; i++)
		forest_row(to, f, g, i, x, top + (i - 0.5) * STRIP_ROW);
}

static void draw(FILE *to, const struct forest *f, double width, const char *style)
{
	struct scale x = forest_scale(f, width);
	char *body;
	FILE *drawn = text_open(&body);
	double top = style ? 44 : 16, y;

	if (style)
		svg_text(drawn, "head", EDGE, 22, "%s", f->report->title);
	y = top = forest_legend(drawn, f, width, top);
	for (unsigned i = 0; i < f->count; i++)
		y += f->groups[i].count > 1 ? strip_height(&f->groups[i]) : 0;
	if (y > top)
		forest_axis(drawn, &x, base_of(f), top, y);
	for (unsigned i = 0, at = 0; i < f->count; i++) {
		if (f->groups[i].count < 2)
			continue;
		forest_group(drawn, f, &f->groups[i], &x, top + at + 4);
		at += (unsigned)strip_height(&f->groups[i]);
	}
	if (y > top)
		forest_caption(drawn, f, y + AXIS + 14);
	else
		svg_text(drawn, "dim", EDGE, y + AXIS + 14, "There is nothing to compare.");
	svg_put(to, drawn, &body, width, y + AXIS + 24, f->report->title, style);
}

void chart_overview(FILE *to, const struct report *r, double width, const char *style)
{
	struct forest f = { r, r->groups.list, r->groups.count };

	draw(to, &f, width, style);
}

void chart_against(FILE *to, const struct report *r, const struct group *g)
{
	struct forest f = { r, g, 1 };

	draw(to, &f, CHART_WIDTH, NULL);
}
