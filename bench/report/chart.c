/* See chart.h. */
#include "chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"
#include "numbers.h"
#include "svg.h"
#include "text.h"
#include "util.h"
#include "words.h"

enum { EDGE = 10, LEGEND_LINE = 18 }; /* EDGE: left and right of everything */

const char *chart_unit(enum figure figure)
{
	const char *unit = figures[figure].unit;

	return !unit ? "" : !strcmp(unit, "us") ? "\xc2\xb5s" : unit;
}

/* Lines at the ticks, across the chart from `from` to `end`, and their texts there. */
static void draw_axis(FILE *to, const struct scale *s, const struct ticks *ticks, bool vertical,
		      double from, double end,
		      struct phrase (*text)(const void *context, double value), const void *context)
{
	for (unsigned i = 0; i < ticks->count; i++) {
		double at = scale_at(s, ticks->values[i]);
		struct phrase label = text(context, ticks->values[i]);

		if (vertical) {
			svg_line(to, "grid", from, at, end, at);
			svg_text(to, "dim end", from - 6, at + 4, "%s", label.text);
		} else {
			svg_line(to, "grid", at, from, at, end);
			svg_text(to, "dim middle", at, end + 15, "%s", label.text);
		}
	}
}

/* ---- Forest plots ---- */

enum { FOREST_WIDTH = 640, NAME_WIDTH = 160, WORDS_WIDTH = 180 };
enum { ROW = 16, AXIS = 22, CAPTION = 24, HEAD = 36 };

struct line {
	const char *name;              /* of a row, or the title of the load of those below */
	const struct verdict *verdict; /* NULL: a title */
	double change;                 /* NaN: unknown */
	struct phrase words;
};

struct forest {
	const char *base; /* what rows are compared with */
	double within;
	struct line *lines; /* owned */
	unsigned count, clipped;
	struct scale x;
};

static void add_line(struct forest *f, const struct line *line)
{
	f->lines = must(reallocarray(f->lines, f->count + 1, sizeof(*f->lines)));
	f->lines[f->count++] = *line;
}

static void add_lines(struct forest *f, const struct result *r, bool against)
{
	const struct result_group *titled = NULL;

	for (struct result_at at = { 0 }; result_next(r, &at);) {
		const struct result_row *row = at.row;
		struct line line = { .name = row->row->listener };

		if (against ? !row->saved : at.first)
			continue;
		if (titled != at.group)
			add_line(f, &(struct line){ .name = at.group->title });
		titled = at.group;
		line.verdict = against ? &row->saved->verdict : &row->verdicts[JUDGED_COST];
		line.change = against ? line.verdict->change : row->change;
		line.words = against ? words_against(r, row) : words_row(at.group, row);
		add_line(f, &line);
	}
}

/* Costs beyond these ratios are drawn at the edge. */
static const double RATIO_MIN = 0.1, RATIO_MAX = 10;

static bool is_drawn(const struct line *l)
{
	return l->verdict && l->change > -1;
}

/* The ratio for an end of the interval, or for the estimate where there is no interval. */
static double end_of(const struct line *l, double end)
{
	return 1 + (isnan(end) ? l->change : end);
}

/* From the quartiles of all ends, by one and a half times their distance to each side, as for
 * whiskers: so one interval that is far wider than the others does not flatten them. */
static void set_forest_scale(struct forest *f)
{
	double *ends = must(calloc(2 * (size_t)f->count + 1, sizeof(*ends)));
	double low = log(0.85), high = log(1.15);
	unsigned count = 0;

	for (const struct line *l = f->lines; l < f->lines + f->count; l++)
		if (is_drawn(l)) {
			ends[count++] = log(end_of(l, l->verdict->low));
			ends[count++] = log(end_of(l, l->verdict->high));
		}
	numbers_sort(ends, count);
	if (count > 0) {
		double first = ends[(count - 1) / 4], third = ends[count - 1 - (count - 1) / 4];
		double reach = 1.5 * (third - first);

		low = fmin(low, fmax(ends[0], first - reach));
		high = fmax(high, fmin(ends[count - 1], third + reach));
	}
	free(ends);
	f->x = (struct scale){ fmax(exp(low) * 0.97, RATIO_MIN), fmin(exp(high) * 1.03, RATIO_MAX),
			       EDGE + NAME_WIDTH, FOREST_WIDTH - EDGE - WORDS_WIDTH, true };
	for (const struct line *l = f->lines; l < f->lines + f->count; l++)
		f->clipped += is_drawn(l) && (end_of(l, l->verdict->low) < f->x.from ||
					      end_of(l, l->verdict->high) > f->x.to);
}

static struct phrase ratio_text(const void *context, double ratio)
{
	const struct forest *f = context;
	struct phrase p;

	if (ratio == 1)
		snprintf(p.text, sizeof(p.text), "%.24s", f->base);
	else
		snprintf(p.text, sizeof(p.text), "%s%.0f %%", ratio < 1 ? "\xe2\x88\x92" : "+",
			 fabs(100 * (ratio - 1)));
	return p;
}

static void draw_row(FILE *to, const struct forest *f, const struct line *l, double y)
{
	/* Intervals that exclude 0 have a colour; those that allow it are hollow. */
	static const char *const classes[] = {
		[VERDICT_LESS] = "less",
		[VERDICT_MORE] = "more",
		[VERDICT_SAME] = "same",
		[VERDICT_UNDECIDED] = "hollow",
		[VERDICT_TOO_FEW_ROUNDS] = "hollow",
		[VERDICT_NOT_COMPARABLE] = "hollow",
	};
	const struct scale *x = &f->x;
	char class[32];

	svg_text_fit(to, "name", EDGE + 8, y + 4, NAME_WIDTH - 20, l->name);
	svg_text_fit(to, "dim", x->end + 14, y + 4, WORDS_WIDTH - 10, l->words.text);
	if (!is_drawn(l))
		return;
	snprintf(class, sizeof(class), "interval %s", classes[l->verdict->is]);
	svg_line(to, class, scale_at(x, end_of(l, l->verdict->low)), y,
		 scale_at(x, end_of(l, l->verdict->high)), y);
	svg_mark(to, classes[l->verdict->is], 0, scale_at(x, 1 + l->change), y);
}

static void draw_forest(FILE *to, const struct forest *f, double top, double bottom)
{
	double same = scale_at(&f->x, 1 / (1 + f->within));
	struct ticks ticks = { .count = 0 };

	svg_rect(to, "band", same, top, scale_at(&f->x, 1 + f->within) - same, bottom - top);
	ticks_add(&ticks, &f->x, 1, 0);
	ticks_round(&ticks, &f->x, 52);
	draw_axis(to, &f->x, &ticks, false, top, bottom, ratio_text, f);
	for (unsigned i = 0; i < f->count; i++)
		if (f->lines[i].verdict)
			draw_row(to, f, &f->lines[i], top + ROW * (i + 0.5));
		else
			svg_text_fit(to, "strong", EDGE, top + ROW * i + 12,
				     FOREST_WIDTH - 2 * EDGE, f->lines[i].name);
}

void chart_forest(FILE *to, const struct result *r, bool against, const char *style)
{
	const char *title = against ? "CPU cost now against that of the saved rows"
				    : "CPU cost against the first listener of each load";
	struct forest f = { .base = against ? "then" : "the first", .within = r->within };
	double top = style ? HEAD : 4, bottom;
	char clipped[64] = "";

	if (r->group_count == 1 && !against)
		f.base = r->groups->rows[0].row->listener;
	add_lines(&f, r, against);
	set_forest_scale(&f);
	bottom = top + ROW * f.count + 4;
	svg_begin(to, FOREST_WIDTH, bottom + AXIS + CAPTION, title, style);
	if (style)
		svg_text(to, "head", EDGE, 22, "%s", title);
	if (f.count > 0)
		draw_forest(to, &f, top, bottom);
	if (f.clipped)
		snprintf(clipped, sizeof(clipped), "; %u beyond the axis: cut off there",
			 f.clipped);
	svg_text(to, "dim", EDGE, bottom + AXIS + 14, "%s%s",
		 f.count ? "left: less CPU; lines: intervals; grey: the same; hollow: not decided"
			 : "There is nothing to compare.",
		 clipped);
	svg_end(to);
	free(f.lines);
}

/* ---- The curves of a sweep ---- */

enum { CURVE_WIDTH = 400, TOP = 8, LEFT = 70, RIGHT = 24, PLOT_BOTTOM = TOP + 200 };

struct plot {
	const struct result_curve *curve;
	enum figure y, x; /* x FIGURE_COUNT: the values of the sweep */
	struct scale y_scale, x_scale;
};

static double shown(double value, enum figure figure)
{
	return value * figures[figure].scale;
}

/* Extends the scale by a value above 0. */
static void extend(struct scale *s, double value)
{
	if (!(value > 0) || !isfinite(value))
		return;
	s->from = fmin(s->from, value);
	s->to = fmax(s->to, value);
}

/* A logarithmic axis of at least a factor of 3; false: there are no values. */
static bool widen(struct scale *s)
{
	double middle = sqrt(s->from * s->to);

	if (!(s->from <= s->to))
		return false;
	s->from = fmin(s->from * 0.85, middle / 1.8);
	s->to = fmax(s->to * 1.18, middle * 1.8);
	return true;
}

static bool set_scales(struct plot *p)
{
	const struct result_curve *c = p->curve;

	p->y_scale = (struct scale){ INFINITY, 0, PLOT_BOTTOM, TOP, true };
	p->x_scale = (struct scale){ INFINITY, 0, LEFT, CURVE_WIDTH - RIGHT, true };
	for (unsigned i = 0; i < c->count; i++)
		for (unsigned j = 0; j < c->groups[i]->count; j++) {
			const struct value *values = c->groups[i]->rows[j].values;

			extend(&p->y_scale, shown(values[p->y].median, p->y));
			extend(&p->y_scale, shown(values[p->y].lower, p->y));
			extend(&p->y_scale, shown(values[p->y].upper, p->y));
			if (p->x != FIGURE_COUNT)
				extend(&p->x_scale, shown(values[p->x].median, p->x));
		}
	/* Values may be words, or 0, which has no logarithm: they are drawn in their order, at
	 * equal distances. */
	if (p->x == FIGURE_COUNT)
		p->x_scale = (struct scale){ 0, fmax(c->count - 1.0, 1), LEFT + 10,
					     CURVE_WIDTH - RIGHT, false };
	return widen(&p->y_scale) && (p->x == FIGURE_COUNT || widen(&p->x_scale));
}

static struct phrase number_text(const void *context, double value)
{
	struct phrase p;

	(void)context;
	snprintf(p.text, sizeof(p.text), "%s", human_number(value).text);
	return p;
}

static struct phrase value_text(const void *context, double value)
{
	struct phrase p;

	snprintf(p.text, sizeof(p.text), "%.12s", curve_value(context, (unsigned)value));
	return p;
}

static void draw_axes(FILE *to, const struct plot *p)
{
	struct ticks x = { .count = 0 }, y = { .count = 0 };
	bool of_values = p->x == FIGURE_COUNT;

	ticks_round(&y, &p->y_scale, 22);
	draw_axis(to, &p->y_scale, &y, true, LEFT, CURVE_WIDTH - RIGHT, number_text, NULL);
	if (!of_values)
		ticks_round(&x, &p->x_scale, 56);
	for (unsigned i = 0; of_values && i < p->curve->count; i++)
		ticks_add(&x, &p->x_scale, i, 40);
	draw_axis(to, &p->x_scale, &x, false, TOP, PLOT_BOTTOM,
		  of_values ? value_text : number_text, p->curve);
}

/* Returns the listener's value i, and the position of its mark; NULL: it has none.  The marks of
 * several listeners are drawn side by side, so that their error bars do not overlap. */
static const struct value *find_point(const struct plot *p, unsigned i, unsigned place, double *x,
				      double *y)
{
	const struct result_group *g = p->curve->groups[i];
	const struct result_row *row = curve_row(p->curve, i, curve_listener(p->curve, place));
	const struct value *values = row ? row->values : NULL;
	bool over_figure = p->x != FIGURE_COUNT;

	if (!values || !(values[p->y].median > 0) || (over_figure && !(values[p->x].median > 0)))
		return NULL;
	*y = scale_at(&p->y_scale, shown(values[p->y].median, p->y));
	*x = over_figure ? scale_at(&p->x_scale, shown(values[p->x].median, p->x))
			 : scale_at(&p->x_scale, i) +
				   4 * fmax(-5, fmin(place - (g->count - 1) / 2.0, 5));
	return &values[p->y];
}

static bool has_points(const struct plot *p, unsigned place)
{
	double x, y;

	for (unsigned i = 0; i < p->curve->count; i++)
		if (find_point(p, i, place, &x, &y))
			return true;
	return false;
}

/* line: of the legend. */
static void draw_curve(FILE *to, const struct plot *p, unsigned place, unsigned line)
{
	const char *colour = svg_series_class(place), *command = "M";
	double x, y, legend = PLOT_BOTTOM + 44 + LEGEND_LINE * line;
	const struct value *v;
	char class[32];

	snprintf(class, sizeof(class), "interval %s", colour);
	fprintf(to, "<path class=\"curve %s\" d=\"", colour);
	for (unsigned i = 0; i < p->curve->count; i++)
		if (find_point(p, i, place, &x, &y)) {
			fprintf(to, "%s%.1f,%.1f", command, x, y);
			command = "L";
		}
	fputs("\"/>\n", to);
	for (unsigned i = 0; i < p->curve->count; i++) {
		if (!(v = find_point(p, i, place, &x, &y)))
			continue;
		svg_mark(to, colour, place, x, y);
		if (v->lower > 0)
			svg_line(to, class, x, scale_at(&p->y_scale, shown(v->lower, p->y)), x,
				 scale_at(&p->y_scale, shown(v->upper, p->y)));
	}
	svg_mark(to, colour, place, LEFT - 6, legend - 4);
	svg_text_fit(to, "name", LEFT + 6, legend, CURVE_WIDTH - LEFT - RIGHT,
		     curve_listener(p->curve, place));
}

bool chart_curve(FILE *to, const struct result_curve *c, enum figure y, enum figure x)
{
	struct plot p = { .curve = c, .y = y, .x = x };
	unsigned lines = 0;

	if (!set_scales(&p))
		return false;
	for (unsigned i = 0; curve_listener(c, i); i++)
		lines += has_points(&p, i);
	svg_begin(to, CURVE_WIDTH, PLOT_BOTTOM + 38 + LEGEND_LINE * lines, figures[y].words, NULL);
	draw_axes(to, &p);
	lines = 0;
	for (unsigned i = 0; curve_listener(c, i); i++)
		if (has_points(&p, i))
			draw_curve(to, &p, i, lines++);
	svg_end(to);
	return true;
}
