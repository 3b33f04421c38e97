/* Latency percentiles as curves.  See report_chart.h. */
#include <math.h>
#include <stdlib.h>

#include "report_chart.h"
#include "svg.h"
#include "text.h"
#include "util.h"

enum { TOP = 8, LEFT = 50, RIGHT = 14, PLOT_HEIGHT = 220, AXIS_HEIGHT = 24, LEGEND_LINE = 18 };
enum { STEPS = 60 };

/* The x axis: one of this many values lies beyond the percentile: 2 is p50, 10000 is p99.99. */
static const double BEYOND_MIN = 2, BEYOND_MAX = 10000;

struct plot {
	struct scale x, y;
	unsigned count;  /* of rows */
	bool trips;      /* some have round trips */
	bool trip_lines; /* some have more than one, which a line joins */
};

static double beyond_at(unsigned step)
{
	return BEYOND_MIN * pow(BEYOND_MAX / BEYOND_MIN, (double)step / STEPS);
}

/* The points of a row's curve. */
struct points {
	struct point {
		double beyond, ns;
	} list[STEPS + 1];
	unsigned count;
};

static void add_point(struct points *p, double beyond, uint64_t ns)
{
	p->list[p->count++] = (struct point){ beyond, (double)MAX(ns, (uint64_t)1) };
}

/* Of the server's part, or of the round trip. */
static struct points points_of(const struct measure *row, bool trip)
{
	static const double said[] = { 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999 };
	struct points p = { .count = 0 };
	uint64_t ns;

	for (unsigned i = 0; !trip && i <= STEPS; i++)
		if (histogram_tail(&row->latency, 1 - 1 / beyond_at(i), &ns))
			add_point(&p, beyond_at(i), ns);
	for (unsigned i = 0; trip && i < ARRAY_SIZE(said); i++)
		if (measure_trip(row, said[i], &ns))
			add_point(&p, 1 / (1 - said[i]), ns);
	return p;
}

static bool plot_init(struct plot *p, const struct group *g)
{
	double low = INFINITY, high = 0, middle;

	*p = (struct plot){ .count = MIN(g->count, (unsigned)CHART_ROWS_MAX) };
	for (unsigned i = 0; i < 2 * p->count; i++) {
		bool trip = i % 2;
		struct points points = points_of(g->rows[i / 2], trip);

		for (unsigned j = 0; j < points.count; j++) {
			low = fmin(low, points.list[j].ns);
			high = fmax(high, points.list[j].ns);
		}
		p->trips |= trip && points.count > 0;
		p->trip_lines |= trip && points.count > 1;
	}
	if (high == 0)
		return false;
	middle = sqrt(low * high);
	p->x = (struct scale){ BEYOND_MIN, BEYOND_MAX, LEFT, CHART_WIDTH - RIGHT, true };
	p->y = (struct scale){ fmin(low * 0.8, middle / 3), fmax(high * 1.25, middle * 3),
			       TOP + PLOT_HEIGHT, TOP, true };
	return true;
}

/* 2000: "2 us" */
static void time_text(double ns, char *text, size_t bytes)
{
	static const char *const units[] = { "ns", "\xc2\xb5s", "ms", "s" };
	unsigned i = 0;

	while (ns >= 999.5 && i + 1 < ARRAY_SIZE(units)) {
		ns /= 1000;
		i++;
	}
	snprintf(text, bytes, "%.4g %s", ns, units[i]);
}

static void draw_axes(FILE *to, const struct plot *p)
{
	static const double percents[] = { 50, 90, 99, 99.9, 99.99 };
	struct ticks ticks = { .count = 0 };
	char text[32];

	ticks_round(&ticks, &p->y, 26);
	for (unsigned i = 0; i < ticks.count; i++) {
		double y = scale_at(&p->y, ticks.values[i]);

		time_text(ticks.values[i], text, sizeof(text));
		svg_line(to, "grid", LEFT, y, CHART_WIDTH - RIGHT, y);
		svg_text(to, "dim end", LEFT - 6, y + 4, "%s", text);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(percents); i++) {
		double x = scale_at(&p->x, 100 / (100 - percents[i]));

		svg_line(to, "grid", x, TOP, x, TOP + PLOT_HEIGHT);
		svg_text(to, i + 1 == ARRAY_SIZE(percents) ? "dim end" : "dim middle",
			 i + 1 == ARRAY_SIZE(percents) ? x + RIGHT - 2 : x, TOP + PLOT_HEIGHT + 16,
			 "p%.4g", percents[i]);
	}
}

/* Marks are drawn above the curves. */
static void draw_curve(FILE *to, FILE *marks, const struct plot *p, const struct measure *row,
		       unsigned series, bool trip)
{
	struct points points = points_of(row, trip);
	struct svg_curve curve;

	svg_curve_begin(&curve, to, trip ? "trip" : "server", series);
	for (unsigned i = 0; i < points.count; i++) {
		double x = scale_at(&p->x, points.list[i].beyond);
		double y = scale_at(&p->y, points.list[i].ns);

		svg_curve_point(&curve, x, y);
		if (trip || i == 0 || i + 1 == points.count)
			svg_mark(marks, series, true, x, y);
	}
	svg_curve_end(&curve);
}

static void draw_legend(FILE *to, const struct report *r, const struct plot *p,
			const struct group *g, double y)
{
	for (unsigned i = 0; i < p->count; i++) {
		svg_mark(to, report_series(r, g, i), true, LEFT - 6, y - 4);
		svg_text_fit(to, "name", LEFT + 6, y, CHART_WIDTH - LEFT - RIGHT - 6,
			     g->rows[i]->listener);
		y += LEGEND_LINE;
	}
	svg_text(to, "dim", LEFT - 10, y, "%s",
		 p->trip_lines ? "solid: in the server; dashed: round trip, by the generator"
		 : p->trips    ? "curves: in the server; marks alone: round trip, by the generator"
			       : "in the server, without the network");
}

bool chart_latency(FILE *to, const struct report *r, const struct group *g)
{
	struct plot p;
	char *text;
	FILE *marks;

	if (!plot_init(&p, g))
		return false;
	marks = text_open(&text);
	svg_begin(to, CHART_WIDTH,
		  TOP + PLOT_HEIGHT + AXIS_HEIGHT + LEGEND_LINE * (p.count + 1) + 10,
		  "Latency percentiles", NULL);
	draw_axes(to, &p);
	for (unsigned i = 0; i < p.count; i++) {
		draw_curve(to, marks, &p, g->rows[i], report_series(r, g, i), false);
		draw_curve(to, marks, &p, g->rows[i], report_series(r, g, i), true);
	}
	fclose(marks);
	fputs(text, to);
	free(text);
	draw_legend(to, r, &p, g, TOP + PLOT_HEIGHT + AXIS_HEIGHT + 18);
	svg_end(to);
	return true;
}
