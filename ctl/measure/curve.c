/* See curve.h. */
#include "curve.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "must.h"
#include "text.h"

/* ---- Which groups make a curve ---- */

/* The values of the group's point, { "c": "10", "d": "0" }, owned by its row; NULL: there
 * is no sweep. */
static json_t *values_of(const struct group *g)
{
	return field_get(g->rows[0]->conditions, "sweep.values");
}

/* The name of the first placeholder, over which curves are drawn; NULL: there is no sweep. */
static const char *axis_of(json_t *values)
{
	return json_object_iter_key(json_object_iter(values));
}

static const char *text_of(const json_t *value)
{
	return json_is_string(value) ? json_string_value(value) : "";
}

static const char *label_of(const struct group *g)
{
	return field_text(g->rows[0]->conditions, "sweep.label");
}

/* The place of the group's point among the combinations of its sweep. */
static uint64_t place_of(const struct group *g)
{
	return field_uint(g->rows[0]->conditions, "sweep.place");
}

/* Have both the same placeholders?  also_values: and the same values, except for that of the axis?
 */
static bool same_values(json_t *a, json_t *b, bool also_values)
{
	const char *axis = axis_of(a), *name;
	json_t *value;

	if (json_object_size(a) != json_object_size(b) || !json_object_get(b, axis))
		return false;
	json_object_foreach(a, name, value) {
		json_t *other = json_object_get(b, name);

		if (!other || (also_values && strcmp(name, axis) != 0 && !json_equal(value, other)))
			return false;
	}
	return true;
}

static bool is_beside(const struct group *a, const struct group *b, bool also_values)
{
	return json_object_size(values_of(a)) && json_object_size(values_of(b)) &&
	       !strcmp(a->service, b->service) && !strcmp(a->operation, b->operation) &&
	       !strcmp(a->pair, b->pair) && !strcmp(label_of(a), label_of(b)) &&
	       same_values(values_of(a), values_of(b), also_values);
}

bool curve_has_both(const struct group *a, const struct group *b)
{
	return is_beside(a, b, false);
}

static struct curve *find_curve(struct curves *c, const struct group *g)
{
	for (unsigned i = 0; i < c->count; i++)
		if (is_beside(c->list[i].groups[0], g, true))
			return &c->list[i];
	c->list = must(reallocarray(c->list, c->count + 1, sizeof(*c->list)));
	c->list[c->count] = (struct curve){ .name = axis_of(values_of(g)) };
	return &c->list[c->count++];
}

void curves_init(struct curves *c, const struct groups *all)
{
	*c = (struct curves){};
	for (unsigned i = 0; i < all->count; i++) {
		struct curve *to;
		unsigned at;

		if (!json_object_size(values_of(&all->list[i])))
			continue;
		to = find_curve(c, &all->list[i]);
		to->groups = must(reallocarray(to->groups, to->count + 1, sizeof(*to->groups)));
		/* A listener may lack an operation at the first values, so that their
		 * groups come later. */
		for (at = to->count++;
		     at > 0 && place_of(to->groups[at - 1]) > place_of(&all->list[i]); at--)
			to->groups[at] = to->groups[at - 1];
		to->groups[at] = &all->list[i];
	}
}

void curves_fini(struct curves *c)
{
	for (unsigned i = 0; i < c->count; i++)
		free(c->list[i].groups);
	free(c->list);
}

const char *curve_value(const struct curve *c, unsigned i)
{
	return text_of(json_object_get(values_of(c->groups[i]), c->name));
}

char *curve_title(const struct curve *c)
{
	const char *between = *label_of(c->groups[0]) ? ", " : "", *name;
	/* A copy with a label of its own; its rows stay those of the group, which outlives it. */
	struct group first = *c->groups[0];
	json_t *values = values_of(&first), *value;
	char *label, *title;
	FILE *to = text_open(&label);

	fputs(label_of(&first), to);
	json_object_foreach(values, name, value)
		if (strcmp(name, c->name) != 0) {
			fprintf(to, "%s%s=%s", between, name, text_of(value));
			between = ", ";
		}
	fclose(to);
	first.label = label;
	title = group_title(&first);
	free(label);
	return title;
}

int curve_row(const struct curve *c, unsigned i, const char *listener)
{
	const struct group *g = c->groups[i];

	for (unsigned row = 0; row < g->count; row++)
		if (!strcmp(g->rows[row]->listener, listener))
			return (int)row;
	return -1;
}

const char *curve_listener(const struct curve *c, unsigned place)
{
	for (unsigned i = 0; i < c->count; i++)
		for (unsigned row = 0; row < c->groups[i]->count; row++) {
			const char *listener = c->groups[i]->rows[row]->listener;
			unsigned before = 0;

			/* A listener that an earlier group has, or an earlier row of this one,
			 * was counted there. */
			while (before < i && curve_row(c, before, listener) < 0)
				before++;
			if (before == i && curve_row(c, i, listener) == (int)row && place-- == 0)
				return listener;
		}
	return NULL;
}

/* ---- Words ---- */

static enum verdict_is is_at(const struct curve *c, unsigned i, const char *listener)
{
	int row = curve_row(c, i, listener);

	return row > 0 ? c->groups[i]->verdicts[row].is : VERDICT_NOT_COMPARABLE;
}

static const char *const is_words[] = {
	[VERDICT_TOO_FEW_ROUNDS] = "too few rounds",
	[VERDICT_LESS] = "less",
	[VERDICT_MORE] = "more",
	[VERDICT_SAME] = "the same",
	[VERDICT_NOT_COMPARABLE] = "without a figure",
	[VERDICT_UNDECIDED] = "undecided",
};

/* "up to c=10", "from c=100 on", "at c=50" */
static void print_values(FILE *to, const struct curve *c, unsigned from, unsigned end)
{
	const char *first = curve_value(c, from), *last = curve_value(c, end - 1);

	if (from == 0 && end == c->count)
		fputs(c->count > 1 ? "at every value" : "", to);
	else if (end - from == 1)
		fprintf(to, "at %s=%s", c->name, first);
	else if (from == 0)
		fprintf(to, "up to %s=%s", c->name, last);
	else if (end == c->count)
		fprintf(to, "from %s=%s on", c->name, first);
	else
		fprintf(to, "from %s=%s to %s", c->name, first, last);
}

/* The listener crosses the first one between two values: it costs less at the one and more at the
 * other, by intervals that exclude 0, and at no value between them is there a verdict. */
static bool find_crossing(const struct curve *c, const char *listener, unsigned *ret_from,
			  unsigned *ret_to)
{
	int last = -1;
	unsigned crossings = 0;

	for (unsigned i = 0; i < c->count; i++) {
		enum verdict_is is = is_at(c, i, listener);

		if (!verdict_decides(is))
			continue;
		if (last >= 0 && is != is_at(c, (unsigned)last, listener)) {
			crossings++;
			*ret_from = (unsigned)last;
			*ret_to = i;
		}
		last = (int)i;
	}
	return crossings == 1;
}

/* "; io_uring: more up to c=10, undecided at c=50, less from c=100 on: they cross between
 * c=10 and c=100" */
static void print_listener(FILE *to, const struct curve *c, const char *listener, unsigned place)
{
	unsigned from, end;

	for (unsigned i = 0; i < c->count; i++) {
		int row = curve_row(c, i, listener);

		if (row < 0)
			continue;
		fprintf(to, "%s%s: ", place > 1 ? "; " : "",
			group_row_name(c->groups[i], (unsigned)row).text);
		break;
	}
	for (unsigned i = 0; i < c->count; i = end) {
		for (end = i; end < c->count && is_at(c, end, listener) == is_at(c, i, listener);)
			end++;
		fprintf(to, "%s%s ", i ? ", " : "", is_words[is_at(c, i, listener)]);
		print_values(to, c, i, end);
	}
	if (find_crossing(c, listener, &from, &end))
		fprintf(to, " (they cross between %s=%s and %s)", c->name, curve_value(c, from),
			curve_value(c, end));
}

char *curve_text(const struct curve *c)
{
	const struct group *g = c->groups[0];
	bool judged = false;
	const char *listener;
	char *text;
	FILE *to;

	for (unsigned i = 0; i < c->count; i++)
		judged |= group_is_judged(c->groups[i]);
	if (!judged)
		return NULL;
	to = text_open(&text);
	fprintf(to, "%s against %s over %s: ", figures[g->cost].words, group_row_name(g, 0).text,
		c->name);
	for (unsigned i = 1; (listener = curve_listener(c, i)); i++)
		print_listener(to, c, listener, i);
	putc('.', to);
	fclose(to);
	return text;
}

/* ---- Numbers ---- */

/* The interval of one row's own values.  verdict_of() makes intervals of ratios, so the other row
 * is one whose values are all 1: the ratio to 1 is the value. */
struct interval curve_interval(const struct measure *row, enum figure figure)
{
	unsigned visits = measure_visits(row), count;
	double *values = must(calloc(2 * (size_t)visits, sizeof(*values))), *ones;
	struct verdict v;

	ones = values + visits;
	count = figure_values(row, figure, values);
	for (unsigned i = 0; i < count; i++)
		ones[i] = 1;
	v = verdict_of(ones, values, count, 1, WITHIN_DEFAULT);
	free(values);
	return (struct interval){ 1 + v.low, 1 + v.high };
}

static bool all_know(const struct curve *c, enum figure figure)
{
	for (unsigned i = 0; i < c->count; i++)
		for (unsigned j = 0; j < c->groups[i]->count; j++)
			if (isnan(figure_spread(c->groups[i]->rows[j], figure).median))
				return false;
	return true;
}

struct curve_figures curve_figures(const struct curve *c)
{
	bool trips = all_know(c, FIGURE_TRIP50) && all_know(c, FIGURE_TRIP99);

	return (struct curve_figures){
		{ c->groups[0]->cost,
		  all_know(c, FIGURE_REQUEST_RATE) ? FIGURE_REQUEST_RATE : FIGURE_RATE,
		  trips ? FIGURE_TRIP50 : FIGURE_P50, trips ? FIGURE_TRIP99 : FIGURE_P99 }
	};
}

static json_t *point_to_json(const struct curve *c, unsigned i, const char *listener,
			     enum figure figure)
{
	int row = curve_row(c, i, listener);
	const struct measure *measure = row < 0 ? NULL : c->groups[i]->rows[row];
	struct interval interval;

	if (!measure)
		return json_null();
	interval = curve_interval(measure, figure);
	return json_pack("[o, o, o]", field_real(figure_spread(measure, figure).median),
			 field_real(interval.low), field_real(interval.high));
}

static json_t *listener_to_json(const struct curve *c, const char *listener)
{
	struct curve_figures drawn = curve_figures(c);
	json_t *made = json_object();

	for (unsigned i = 0; i < CURVE_FIGURES; i++) {
		json_t *points = json_array();

		for (unsigned j = 0; j < c->count; j++)
			json_array_append_new(points, point_to_json(c, j, listener, drawn.list[i]));
		json_object_set_new(made, figures[drawn.list[i]].name, points);
	}
	return json_pack("{s:s, s:o}", "listener", listener, "figures", made);
}

static json_t *curve_to_json(const struct curve *c)
{
	json_t *values = json_array(), *listeners = json_array(), *made;
	char *title = curve_title(c), *text = curve_text(c);
	const char *listener;

	for (unsigned i = 0; i < c->count; i++)
		json_array_append_new(values, json_string(curve_value(c, i)));
	for (unsigned i = 0; (listener = curve_listener(c, i)); i++)
		json_array_append_new(listeners, listener_to_json(c, listener));
	made = json_pack("{s:s, s:s, s:o, s:s?, s:o}", "name", c->name, "title", title, "values",
			 values, "conclusion", text, "listeners", listeners);
	free(title);
	free(text);
	return made;
}

json_t *curves_to_json(const struct groups *all)
{
	struct curves curves;
	json_t *made = NULL;

	curves_init(&curves, all);
	for (unsigned i = 0; i < curves.count; i++) {
		made = made ? made : json_array();
		json_array_append_new(made, curve_to_json(&curves.list[i]));
	}
	curves_fini(&curves);
	return made;
}
