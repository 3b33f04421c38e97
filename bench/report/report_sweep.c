/* The curves of sweeps: figures with their intervals over the values, and latency over the rate
 * that was measured.  See report_page.h. */
#include <math.h>
#include <stdlib.h>

#include "curve.h"
#include "report_page.h"
#include "svg.h"
#include "text.h"

enum { TOP = 8, LEFT = 56, RIGHT = 24, PLOT_HEIGHT = 200, AXIS_HEIGHT = 26, LEGEND_LINE = 18 };

/* A chart: `y` over the values of the sweep, or over `x`. */
struct chart {
	const struct report *report;
	const struct result_curve *curve;
	enum figure y;
	bool over_figure;
	enum figure x;
	struct scale x_scale, y_scale;
	unsigned series;  /* of the listener that is drawn */
	unsigned listed;  /* listeners, in the legend */
	bool intervals;   /* some were drawn */
	FILE *to, *marks; /* marks are above the lines */
};

/* In the unit of the figure's column; NaN: unknown. */
static double shown(const struct result_row *row, enum figure figure)
{
	return row->values[figure].median * figures[figure].scale;
}

static const struct result_row *row_at(const struct chart *c, unsigned i, const char *listener)
{
	int row = curve_row(c->curve, i, listener);

	return row < 0 ? NULL : &c->curve->groups[i]->rows[row];
}

struct interval {
	double low, high;
};

static struct interval interval_of(const struct result_row *row, enum figure figure)
{
	double scale = figures[figure].scale;

	return (struct interval){ row->values[figure].lower * scale,
				  row->values[figure].upper * scale };
}

/* Extends [low, high] by a value above 0. */
static void extend(struct interval *range, double value)
{
	if (!(value > 0) || !isfinite(value))
		return;
	range->low = fmin(range->low, value);
	range->high = fmax(range->high, value);
}

/* A logarithmic axis of at least a factor of 3; false: there are no values. */
static bool set_scale(struct scale *s, struct interval range, double start, double end)
{
	double middle = sqrt(range.low * range.high);

	if (!(range.low <= range.high))
		return false;
	*s = (struct scale){ fmin(range.low * 0.85, middle / 1.8),
			     fmax(range.high * 1.18, middle * 1.8), start, end, true };
	return true;
}

static bool set_scales(struct chart *c)
{
	struct interval x = { INFINITY, 0 }, y = { INFINITY, 0 };

	for (unsigned i = 0; i < c->curve->count; i++)
		for (unsigned j = 0; j < c->curve->groups[i]->count; j++) {
			const struct result_row *row = &c->curve->groups[i]->rows[j];
			struct interval interval = interval_of(row, c->y);

			extend(&y, shown(row, c->y));
			extend(&y, interval.low);
			extend(&y, interval.high);
			if (c->over_figure)
				extend(&x, shown(row, c->x));
		}
	/* Values may be words, or 0: they are drawn in their order, as far apart. */
	c->x_scale = (struct scale){ 0, fmax(c->curve->count - 1.0, 1), LEFT + 10,
				     CHART_WIDTH - RIGHT, false };
	return set_scale(&c->y_scale, y, TOP + PLOT_HEIGHT, TOP) &&
	       (!c->over_figure || set_scale(&c->x_scale, x, LEFT, CHART_WIDTH - RIGHT));
}

/* ---- Drawing ---- */

static void draw_axes(const struct chart *c)
{
	struct ticks ticks = { .count = 0 };
	struct human text;

	ticks_round(&ticks, &c->y_scale, 22);
	for (unsigned i = 0; i < ticks.count; i++) {
		double y = scale_at(&c->y_scale, ticks.values[i]);

		text = human_number(ticks.values[i]);
		svg_line(c->to, "grid", LEFT, y, CHART_WIDTH - RIGHT, y);
		svg_text(c->to, "dim end", LEFT - 6, y + 4, "%s", text.text);
	}
	ticks = (struct ticks){ .count = 0 };
	if (c->over_figure)
		ticks_round(&ticks, &c->x_scale, 56);
	for (unsigned i = 0; !c->over_figure && i < c->curve->count; i++)
		ticks_add(&ticks, &c->x_scale, i, 40);
	for (unsigned i = 0; i < ticks.count; i++) {
		double x = scale_at(&c->x_scale, ticks.values[i]);

		svg_line(c->to, "grid", x, TOP, x, TOP + PLOT_HEIGHT);
		if (c->over_figure)
			svg_text(c->to, "dim middle", x, TOP + PLOT_HEIGHT + 16, "%s",
				 human_number(ticks.values[i]).text);
		else
			svg_text(c->to, "dim middle", x, TOP + PLOT_HEIGHT + 16, "%.12s",
				 curve_value(c->curve, (unsigned)ticks.values[i]));
	}
}

/* The x of a listener's mark over a value.  Listeners stand beside each other, as their intervals
 * would hide each other otherwise. */
static double x_at(const struct chart *c, unsigned i, const struct result_row *row, unsigned place)
{
	double beside = place - (c->curve->groups[i]->count - 1) / 2.0;

	return c->over_figure ? scale_at(&c->x_scale, shown(row, c->x))
			      : scale_at(&c->x_scale, i) + 4 * fmax(-5, fmin(beside, 5));
}

static void draw_listener(struct chart *c, const char *listener, unsigned place)
{
	struct svg_curve line;
	double legend;
	char class[16];

	for (unsigned i = c->curve->count; i-- > 0;) {
		int row = curve_row(c->curve, i, listener);

		if (row >= 0)
			c->series = report_series(c->report, c->curve->groups[i], (unsigned)row);
	}
	snprintf(class, sizeof(class), "interval %s", svg_series_class(c->series));
	svg_curve_begin(&line, c->to, "server", c->series);
	for (unsigned i = 0; i < c->curve->count; i++) {
		const struct result_row *row = row_at(c, i, listener);
		struct interval interval;
		double x, y;

		if (!row || !(shown(row, c->y) > 0) || (c->over_figure && !(shown(row, c->x) > 0)))
			continue;
		x = x_at(c, i, row, place);
		y = scale_at(&c->y_scale, shown(row, c->y));
		svg_curve_point(&line, x, y);
		svg_mark(c->marks, c->series, true, x, y);
		interval = interval_of(row, c->y);
		if (!(interval.low > 0))
			continue;
		c->intervals = true;
		svg_line(c->marks, class, x, scale_at(&c->y_scale, interval.low), x,
			 scale_at(&c->y_scale, interval.high));
	}
	svg_curve_end(&line);
	if (line.count == 0)
		return;
	legend = TOP + PLOT_HEIGHT + AXIS_HEIGHT + 18 + LEGEND_LINE * c->listed++;
	svg_mark(c->marks, c->series, true, LEFT - 6, legend - 4);
	svg_text_fit(c->marks, "name", LEFT + 6, legend, CHART_WIDTH - LEFT - RIGHT, listener);
}

static void put_chart(FILE *to, struct chart *c)
{
	char *body, *above, heading[160];
	const char *listener;

	if (!set_scales(c))
		return;
	c->to = text_open(&body);
	c->marks = text_open(&above);
	draw_axes(c);
	for (unsigned i = 0; i < CHART_ROWS_MAX && (listener = curve_listener(c->curve, i)); i++)
		draw_listener(c, listener, i);
	fclose(c->to);
	fclose(c->marks);
	snprintf(heading, sizeof(heading), "%s%s%s over %s%s", figures[c->y].words,
		 *page_unit(c->y) == '/' ? "" : " in ", page_unit(c->y),
		 c->over_figure ? figures[c->x].words : c->curve->name,
		 c->over_figure ? page_unit(c->x) : "");
	fputs("<figure>", to);
	svg_element(to, "h3", "%s", heading);
	svg_begin(to, CHART_WIDTH, TOP + PLOT_HEIGHT + AXIS_HEIGHT + LEGEND_LINE * c->listed + 12,
		  heading, NULL);
	fputs(body, to);
	fputs(above, to);
	svg_end(to);
	fprintf(to, "<figcaption>%s%s.</figcaption></figure>\n",
		c->over_figure ? "Logarithmic axes" : "Logarithmic axis; values in their order",
		c->intervals ? "; vertical lines: intervals that hold in 95 of 100 runs" : "");
	free(body);
	free(above);
}

static void put_curve(FILE *to, const struct report *r, const struct result_curve *curve)
{
	struct curve_figures drawn = curve_figures(curve);

	fputs("<section>", to);
	svg_element(to, "h2", "%s over %s", curve->title, curve->name);
	report_paragraph(to, "p class=\"verdict\"", curve_text(curve));
	fputs("<div class=\"charts\">\n", to);
	for (unsigned i = 0; i < CURVE_FIGURES; i++)
		put_chart(to, &(struct chart){ .report = r, .curve = curve, .y = drawn.list[i] });
	for (unsigned i = 2; i < CURVE_FIGURES; i++) /* latencies over the rate */
		put_chart(to, &(struct chart){ .report = r,
					       .curve = curve,
					       .y = drawn.list[i],
					       .over_figure = true,
					       .x = drawn.list[1] });
	fputs("</div>\n</section>\n", to);
}

void report_curves(FILE *to, const struct report *r)
{
	for (unsigned i = 0; i < r->result->curve_count; i++)
		put_curve(to, r, &r->result->curves[i]);
}
