/* The overview, a forest plot: of each load and each of its rows but the first, the estimated
 * change of cost against the first with its interval.  See report_chart.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "render.h"
#include "report_chart.h"
#include "svg.h"
#include "util.h"

enum { EDGE = 10, STRIP_LINE = 20, STRIP_ROW = 15, STRIP_GAP = 8, AXIS = 20, LEGEND_LINE = 18 };
enum { VERDICT_WIDTH = 136 }; /* of the words beside an interval */

/* Draws the engines' names and marks; returns the y below them. */
static double overview_legend(FILE *to, const struct report *r, double width, double y)
{
	double x = EDGE;

	for (unsigned i = 0; i < json_array_size(r->engines); i++) {
		const char *engine = json_string_value(json_array_get(r->engines, i));
		double room = 14 + 6.7 * text_width(engine) + 14;

		if (x > EDGE && x + room > width) {
			x = EDGE;
			y += LEGEND_LINE;
		}
		svg_mark(to, i, true, x + 4, y - 4);
		svg_text(to, "name", x + 14, y, "%s", engine);
		x += room;
	}
	return y + 12;
}

/* Costs beyond these ratios are drawn at the edge. */
static const double RATIO_MIN = 0.1, RATIO_MAX = 10;

/* The ends of a row's interval as ratios, or its estimate where it has none. */
static double low_of(const struct group *g, unsigned i)
{
	double low = g->verdicts[i].low;

	return 1 + (isnan(low) ? group_change(g, i) : low);
}

static double high_of(const struct group *g, unsigned i)
{
	double high = g->verdicts[i].high;

	return 1 + (isnan(high) ? group_change(g, i) : high);
}

static struct scale overview_scale(const struct report *r, double width)
{
	double low = 0.85, high = 1.15;

	for (unsigned i = 0; i < r->groups.count; i++) {
		const struct group *g = &r->groups.list[i];

		for (unsigned j = 1; j < g->count; j++) {
			low = fmin(low, low_of(g, j));
			high = fmax(high, high_of(g, j));
		}
	}
	return (struct scale){ fmax(low * 0.97, RATIO_MIN), fmin(high * 1.03, RATIO_MAX), EDGE + 6,
			       width - EDGE - VERDICT_WIDTH, true };
}

static void overview_axis(FILE *to, const struct scale *x, double top, double bottom)
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
			svg_text(to, class, at, bottom + 14, "the first");
		else
			svg_text(to, class, at, bottom + 14, "%s%.0f %%",
				 percent < 0 ? "\xe2\x88\x92" : "+", fabs(percent));
	}
}

static double strip_height(const struct group *g)
{
	return STRIP_LINE + STRIP_ROW * (MIN(g->count, (unsigned)CHART_ROWS_MAX) - 1) + STRIP_GAP;
}

static void overview_row(FILE *to, const struct report *r, const struct group *g, unsigned i,
			 const struct scale *x, double y)
{
	enum verdict_is is = g->verdicts[i].is;
	unsigned series = report_engine(r, g->rows[i]);
	bool decided = is != VERDICT_UNDECIDED && is != VERDICT_TOO_FEW_ROUNDS;
	char class[16];

	svg_text(to, "dim", x->end + 10, y + 4, "%s", group_verdict_text(g, i).text);
	if (!(1 + group_change(g, i) > 0))
		return;
	snprintf(class, sizeof(class), "interval %s", svg_series_class(series));
	svg_line(to, class, scale_at(x, low_of(g, i)), y, scale_at(x, high_of(g, i)), y);
	svg_mark(to, series, decided, scale_at(x, 1 + group_change(g, i)), y);
}

static void overview_group(FILE *to, const struct report *r, const struct group *g,
			   const struct scale *x, double y)
{
	unsigned count = MIN(g->count, (unsigned)CHART_ROWS_MAX);
	double top = y + STRIP_LINE - 4, same = scale_at(x, 1 / (1 + g->within));
	char *title = group_title(g);

	svg_text_fit(to, "name", EDGE, y + 10, x->end + VERDICT_WIDTH - 2 * EDGE, title);
	free(title);
	svg_rect(to, "band", same, top, scale_at(x, 1 + g->within) - same, STRIP_ROW * (count - 1));
	for (unsigned i = 1; i < count; i++)
		overview_row(to, r, g, i, x, top + (i - 0.5) * STRIP_ROW);
}

void chart_overview(FILE *to, const struct report *r, double width, const char *style)
{
	static const char title[] = "CPU cost against the first listener of each load";
	struct scale x = overview_scale(r, width);
	char *body;
	size_t bytes;
	FILE *drawn = open_memstream(&body, &bytes);
	double top = style ? 44 : 16, y;

	if (!drawn)
		abort();
	if (style)
		svg_text(drawn, "head", EDGE, 22, "%s", title);
	y = top = overview_legend(drawn, r, width, top);
	for (unsigned i = 0; i < r->groups.count; i++)
		y += r->groups.list[i].count > 1 ? strip_height(&r->groups.list[i]) : 0;
	overview_axis(drawn, &x, top, y);
	for (unsigned i = 0, at = 0; i < r->groups.count; i++) {
		if (r->groups.list[i].count < 2)
			continue;
		overview_group(drawn, r, &r->groups.list[i], &x, top + at + 4);
		at += (unsigned)strip_height(&r->groups.list[i]);
	}
	svg_text(drawn, "dim", EDGE, y + AXIS + 14,
		 "left: less CPU; lines: intervals; hollow: undecided; grey: the same");
	fclose(drawn);
	svg_begin(to, width, y + AXIS + 24, title, style);
	fputs(body, to);
	svg_end(to);
	free(body);
}
