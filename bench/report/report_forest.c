/* Forest plots: the estimated change of each row's cost with its interval, against the first of its
 * load or against saved rows.  See report_chart.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "must.h"
#include "numbers.h"
#include "render.h"
#include "report_chart.h"
#include "svg.h"
#include "text.h"
#include "util.h"
#include "words.h"

enum { EDGE = 10, STRIP_LINE = 20, STRIP_ROW = 15, STRIP_GAP = 8, AXIS = 20, LEGEND_LINE = 18 };
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
static void set_scale(struct forest *f, double width)
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

	set_scale(f, width);
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
