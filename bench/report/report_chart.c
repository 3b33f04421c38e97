/* Colours, axes and legends.  See report_chart.h. */
#include "report_chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "curve.h"
#include "must.h"
#include "numbers.h"
#include "render.h"
#include "svg.h"
#include "text.h"
#include "util.h"
#include "words.h"

enum { EDGE = 10, LEGEND_LINE = 18 }; /* EDGE: left and right of everything */

/* ---- Colours ---- */

static void *engine_of(const struct report *r, const struct measure *row)
{
	return json_object_iter_at(r->engines, measure_engine_name(row).text);
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
	struct phrase engine = measure_engine_name(row);

	if (!json_object_get(r->engines, engine.text))
		json_object_set_new_nocheck(r->engines, engine.text, json_integer(count));
}

void report_init(struct report *r, const struct result *result)
{
	*r = (struct report){ .result = result, .engines = json_object() };
	for (struct result_at at = { 0 }; result_next(result, &at);)
		add_engine(r, at.row->row);
}

void report_fini(struct report *r)
{
	json_decref(r->engines);
}

unsigned report_series(const struct report *r, const struct result_group *g, unsigned i)
{
	bool *seen = must(calloc(json_object_size(r->engines), sizeof(*seen)));
	unsigned series = report_engine(r, g->rows[i].row);

	for (unsigned j = 0; j < g->count; j++) {
		unsigned engine = report_engine(r, g->rows[j].row);

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

/* ---- What charts share ---- */

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

/* ---- Forest plots ---- */

enum { STRIP_LINE = 20, STRIP_ROW = 15, STRIP_GAP = 8, AXIS = 20 };
enum { VERDICT_WIDTH = 150 }; /* of the words beside an interval */

struct line {
	const struct verdict *verdict;
	double change; /* NaN: unknown */
	const char *name;
	unsigned series;
	struct phrase words;
};

/* A load, or a row beside a saved one. */
struct strip {
	const char *title;
	struct line lines[CHART_ROWS_MAX];
	unsigned count;
};

struct forest {
	const char *title, *base; /* base: what rows are compared with */
	double within;
	struct strip *strips; /* owned */
	unsigned count, clipped;
	struct scale x;
};

static void add_group(struct forest *f, const struct report *r, const struct result_group *g,
		      bool alone)
{
	struct strip *strip = &f->strips[f->count++];

	*strip = (struct strip){ .title = g->title };
	for (unsigned i = 1; i < MIN(g->count, (unsigned)CHART_ROWS_MAX); i++)
		strip->lines[strip->count++] = (struct line){
			.verdict = &g->rows[i].verdicts[JUDGED_COST],
			.change = g->rows[i].change,
			/* Rows are told apart by their engines, those of one group by their names.
			 */
			.name = alone ? g->rows[i].row->listener
				      : report_engine_name(r, g->rows[i].row),
			.series = alone ? report_series(r, g, i) : report_engine(r, g->rows[i].row),
			.words = words_row(g, &g->rows[i]),
		};
}

static void add_then(struct forest *f, const struct report *r, const struct result_group *g,
		     const struct result_row *row)
{
	f->strips[f->count++] = (struct strip){
		.title = g->title,
		.count = 1,
		.lines = { { .verdict = &row->then->verdict,
			     .change = row->then->verdict.change,
			     .name = row->row->listener,
			     .series = report_engine(r, row->row),
			     .words = words_then(r->result, row) } },
	};
}

/* ---- The axis ---- */

/* Costs beyond these ratios are drawn at the edge. */
static const double RATIO_MIN = 0.1, RATIO_MAX = 10;

/* An end of an interval as a logarithm, or the estimate where there is none. */
static double end_of(const struct line *l, double end)
{
	return log1p(isnan(end) ? l->change : end);
}

/* The ends of all intervals: how many there are. */
static unsigned ends_of(const struct forest *f, double *ends)
{
	unsigned count = 0;

	for (unsigned i = 0; i < f->count; i++)
		for (unsigned j = 0; j < f->strips[i].count; j++) {
			const struct line *l = &f->strips[i].lines[j];

			if (!(l->change > -1))
				continue;
			ends[count++] = end_of(l, l->verdict->low);
			ends[count++] = end_of(l, l->verdict->high);
		}
	return count;
}

/* From the quartiles of all ends, by one and a half times their distance to each side, as for
 * whiskers: so one interval that is far wider than the others does not flatten them. */
static void set_forest_scale(struct forest *f, double width)
{
	double *ends = must(calloc(2 * (size_t)f->count * CHART_ROWS_MAX + 1, sizeof(*ends)));
	unsigned count = ends_of(f, ends);
	double low = log(0.85), high = log(1.15), reach;

	numbers_sort(ends, count);
	if (count > 0) {
		double first = ends[(count - 1) / 4], third = ends[count - 1 - (count - 1) / 4];

		reach = 1.5 * (third - first);
		low = fmin(low, fmax(ends[0], first - reach));
		high = fmax(high, fmin(ends[count - 1], third + reach));
	}
	f->x = (struct scale){ fmax(exp(low) * 0.97, RATIO_MIN), fmin(exp(high) * 1.03, RATIO_MAX),
			       EDGE + 6, width - EDGE - VERDICT_WIDTH, true };
	for (unsigned i = 0; i < f->count; i++)
		for (unsigned j = 0; j < f->strips[i].count; j++) {
			const struct line *l = &f->strips[i].lines[j];

			f->clipped += exp(end_of(l, l->verdict->low)) < f->x.from ||
				      exp(end_of(l, l->verdict->high)) > f->x.to;
		}
	free(ends);
}

static void draw_axis(FILE *to, const struct forest *f, double top, double bottom)
{
	static const double ratios[] = { 1,   0.5, 2,   0.8,  1.2,  0.2, 5, 0.9, 1.1,
					 0.7, 1.5, 0.6, 0.95, 1.05, 0.3, 3, 0.1, 10 };
	const struct scale *x = &f->x;
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
			svg_text(to, class, at, bottom + 14, "%s", f->base);
		else
			svg_text(to, class, at, bottom + 14, "%s%.0f %%",
				 percent < 0 ? "\xe2\x88\x92" : "+", fabs(percent));
	}
}

/* ---- Drawing ---- */

/* Draws the names and marks of rows; returns the y below them. */
static double draw_legend(FILE *to, const struct forest *f, double width, double y)
{
	json_t *named = json_object();
	double x = EDGE;

	for (unsigned i = 0; i < f->count; i++)
		for (unsigned j = 0; j < f->strips[i].count; j++) {
			const struct line *l = &f->strips[i].lines[j];
			double room = 14 + 6.7 * text_width(l->name) + 14;

			if (json_object_get(named, l->name))
				continue;
			json_object_set_new(named, l->name, json_true());
			if (x > EDGE && x + room > width) {
				x = EDGE;
				y += LEGEND_LINE;
			}
			svg_mark(to, l->series, true, x + 4, y - 4);
			svg_text(to, "name", x + 14, y, "%s", l->name);
			x += room;
		}
	json_decref(named);
	return y + 12;
}

static double strip_height(const struct strip *s)
{
	return s->count ? STRIP_LINE + STRIP_ROW * s->count + STRIP_GAP : 0;
}

static bool is_hollow(enum verdict_is is)
{
	return is == VERDICT_UNDECIDED || is == VERDICT_TOO_FEW_ROUNDS ||
	       is == VERDICT_NOT_COMPARABLE;
}

/* Names what is drawn, and no more. */
static void draw_caption(FILE *to, const struct forest *f, double y)
{
	bool intervals = false, hollow = false;
	char clipped[64] = "";

	for (unsigned i = 0; i < f->count; i++)
		for (unsigned j = 0; j < f->strips[i].count; j++) {
			intervals |= !isnan(f->strips[i].lines[j].verdict->low);
			hollow |= is_hollow(f->strips[i].lines[j].verdict->is);
		}
	if (f->clipped)
		snprintf(clipped, sizeof(clipped), "; %u beyond the axis: cut off there",
			 f->clipped);
	svg_text(to, "dim", EDGE, y, "left: less CPU%s%s; grey: the same%s",
		 intervals ? "; lines: intervals" : "", hollow ? "; hollow: undecided" : "",
		 clipped);
}

static double place(const struct scale *x, double ratio)
{
	return scale_at(x, fmin(fmax(ratio, x->from), x->to));
}

static void draw_line(FILE *to, const struct forest *f, const struct line *l, double y)
{
	const struct scale *x = &f->x;
	char class[16];

	svg_text(to, "dim", x->end + 10, y + 4, "%s", l->words.text);
	if (!(1 + l->change > 0))
		return;
	snprintf(class, sizeof(class), "interval %s", svg_series_class(l->series));
	svg_line(to, class, place(x, exp(end_of(l, l->verdict->low))), y,
		 place(x, exp(end_of(l, l->verdict->high))), y);
	svg_mark(to, l->series, !is_hollow(l->verdict->is), place(x, 1 + l->change), y);
}

static void draw_strip(FILE *to, const struct forest *f, const struct strip *s, double y)
{
	double top = y + STRIP_LINE - 4, same = scale_at(&f->x, 1 / (1 + f->within));

	svg_text_fit(to, "name", EDGE, y + 10, f->x.end + VERDICT_WIDTH - 2 * EDGE, s->title);
	svg_rect(to, "band", same, top, scale_at(&f->x, 1 + f->within) - same,
		 STRIP_ROW * s->count);
	for (unsigned i = 0; i < s->count; i++)
		draw_line(to, f, &s->lines[i], top + (i + 0.5) * STRIP_ROW);
}

/* Frees the strips. */
static void draw(FILE *to, struct forest *f, double width, const char *style)
{
	char *body;
	FILE *drawn = text_open(&body);
	double top = style ? 44 : 16, y, at;

	set_forest_scale(f, width);
	if (style)
		svg_text(drawn, "head", EDGE, 22, "%s", f->title);
	y = top = draw_legend(drawn, f, width, top);
	for (unsigned i = 0; i < f->count; i++)
		y += strip_height(&f->strips[i]);
	if (y > top)
		draw_axis(drawn, f, top, y);
	at = top + 4;
	for (unsigned i = 0; i < f->count; i++) {
		if (f->strips[i].count)
			draw_strip(drawn, f, &f->strips[i], at);
		at += strip_height(&f->strips[i]);
	}
	if (y > top)
		draw_caption(drawn, f, y + AXIS + 14);
	else
		svg_text(drawn, "dim", EDGE, y + AXIS + 14, "There is nothing to compare.");
	svg_put(to, drawn, &body, width, y + AXIS + 24, f->title, style);
	free(f->strips);
}

static struct forest forest_new(const struct report *r, const char *title, const char *base,
				unsigned strips)
{
	return (struct forest){ .title = title,
				.base = base,
				.within = r->result->within,
				.strips = must(calloc(strips + 1U, sizeof(struct strip))) };
}

static const char against_first[] = "CPU cost against the first listener of each load";

void chart_overview(FILE *to, const struct report *r, double width, const char *style)
{
	unsigned count = r->result->group_count;
	bool alone = count == 1;
	struct forest f =
		forest_new(r, against_first,
			   alone ? r->result->groups->rows[0].row->listener : "the first", count);

	for (unsigned i = 0; i < count; i++)
		add_group(&f, r, &r->result->groups[i], alone);
	draw(to, &f, width, style);
}

void chart_against(FILE *to, const struct report *r, const struct result_group *g)
{
	struct forest f = forest_new(r, against_first, g->rows[0].row->listener, 1);

	add_group(&f, r, g, true);
	draw(to, &f, CHART_WIDTH, NULL);
}

void chart_then_now(FILE *to, const struct report *r, double width, const char *style)
{
	unsigned count = 0;
	struct forest f;

	for (struct result_at at = { 0 }; result_next(r->result, &at);)
		count++;
	f = forest_new(r, "CPU cost now against that of the saved rows", "then", count);
	for (struct result_at at = { 0 }; result_next(r->result, &at);)
		if (at.row->then)
			add_then(&f, r, at.group, at.row);
	draw(to, &f, width, style);
}

/* ---- The curves of a sweep ---- */

enum { TOP = 8, LEFT = 56, RIGHT = 24, PLOT_HEIGHT = 200, AXIS_HEIGHT = 26 };

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
