/* Throughput over time: a strip for each row, with a line for each of its
 * visits.  See report_chart.h. */
#include <math.h>

#include "human.h"
#include "report_chart.h"
#include "svg.h"
#include "timeline.h"
#include "util.h"

enum { EDGE = 10, TITLE = 20, STRIP = 34, ROW = TITLE + STRIP + 10, AXIS = 18 };

struct strips {
	unsigned count;  /* of rows */
	double seconds;  /* of the longest visit */
	double rate;     /* the highest */
	unsigned points; /* of the visit that has most */
};

static void add_extent(struct strips *s, const struct measure *visit)
{
	double rate, seconds = 0;
	uint64_t ns;
	unsigned i;

	for (i = 0; timeline_point(visit, i, &ns, &rate); i++) {
		seconds += (double)ns / NS_PER_S;
		s->rate = fmax(s->rate, rate);
	}
	s->seconds = fmax(s->seconds, seconds);
	s->points = MAX(s->points, i);
}

struct strip {
	FILE *to;
	struct scale x, y;
	unsigned series;
};

/* A point is drawn in the middle of its time. */
static void draw_visit(const struct strip *s, const struct measure *visit)
{
	struct svg_curve curve;
	double rate, seconds = 0;
	uint64_t ns;

	svg_curve_begin(&curve, s->to, "visit", s->series);
	for (unsigned i = 0; timeline_point(visit, i, &ns, &rate); i++) {
		double width = (double)ns / NS_PER_S;

		svg_curve_point(&curve, scale_at(&s->x, seconds + width / 2),
				scale_at(&s->y, rate));
		seconds += width;
	}
	svg_curve_end(&curve);
}

static void draw_strip(FILE *to, const struct report *r, const struct group *g, unsigned row,
		       const struct strips *s)
{
	double top = row * ROW + TITLE;
	struct strip strip = {
		.to = to,
		.x = { 0, s->seconds, EDGE, CHART_WIDTH - EDGE, false },
		.y = { 0, s->rate * 1.05, top + STRIP, top, false },
		.series = report_series(r, g, row),
	};

	svg_mark(to, strip.series, true, EDGE + 4, top - 9);
	svg_text_fit(to, "name", EDGE + 16, top - 5, CHART_WIDTH - 3 * EDGE - 16,
		     g->rows[row]->listener);
	svg_line(to, "grid", EDGE, top + STRIP, CHART_WIDTH - EDGE, top + STRIP);
	svg_line(to, "grid", EDGE, top, CHART_WIDTH - EDGE, top);
	for (unsigned i = 0; i < measure_visits(g->rows[row]); i++)
		draw_visit(&strip, measure_visit_at(g->rows[row], i));
}

bool chart_timeline(FILE *to, const struct report *r, const struct group *g)
{
	struct strips s = { .count = MIN(g->count, (unsigned)CHART_ROWS_MAX) };

	for (unsigned i = 0; i < s.count; i++)
		for (unsigned j = 0; j < measure_visits(g->rows[i]); j++)
			add_extent(&s, measure_visit_at(g->rows[i], j));
	if (s.points < 2 || s.rate <= 0)
		return false;
	svg_begin(to, CHART_WIDTH, s.count * ROW + AXIS, "Throughput over time", NULL);
	for (unsigned i = 0; i < s.count; i++)
		draw_strip(to, r, g, i, &s);
	svg_text(to, "dim", EDGE, s.count * ROW + 10, "0 to %s ops/s in each strip",
		 human_number(s.rate * 1.05).text);
	svg_text(to, "dim end", CHART_WIDTH - EDGE, s.count * ROW + 10, "%.2g s", s.seconds);
	svg_end(to);
	return true;
}
