/* See curve.h. */
#include "curve.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "must.h"
#include "parts.h"
#include "text.h"

/* ---- Which groups make a curve ---- */

/* The values of the group's point, { "c": "10", "d": "0" }, owned by its row; NULL: there
 * is no sweep. */
static json_t *values_of(const struct result_group *g)
{
	return field_get(g->rows[0].row->conditions, "sweep.values");
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

static const char *label_of(const struct result_group *g)
{
	return field_text(g->rows[0].row->conditions, "sweep.label");
}

/* The place of the group's point among the combinations of its sweep. */
static uint64_t place_of(const struct result_group *g)
{
	return field_uint(g->rows[0].row->conditions, "sweep.place");
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

static bool is_beside(const struct result_group *a, const struct result_group *b, bool also_values)
{
	return json_object_size(values_of(a)) && json_object_size(values_of(b)) &&
	       !strcmp(a->service, b->service) && !strcmp(a->operation, b->operation) &&
	       !strcmp(a->pair, b->pair) && !strcmp(label_of(a), label_of(b)) &&
	       same_values(values_of(a), values_of(b), also_values);
}

bool curve_has_both(const struct result_group *a, const struct result_group *b)
{
	return is_beside(a, b, false);
}

static struct result_curve *find_curve(struct result *r, const struct result_group *g)
{
	for (unsigned i = 0; i < r->curve_count; i++)
		if (is_beside(r->curves[i].groups[0], g, true))
			return &r->curves[i];
	r->curves = must(reallocarray(r->curves, r->curve_count + 1, sizeof(*r->curves)));
	r->curves[r->curve_count] = (struct result_curve){ .name = axis_of(values_of(g)) };
	return &r->curves[r->curve_count++];
}

/* "10", "1.5"; false: the value is a word, or has a unit. */
static bool number_of(const struct result_curve *c, unsigned i, double *ret)
{
	const char *text = curve_value(c, i);
	char *end;

	*ret = strtod(text, &end);
	return end != text && !*end;
}

/* A listener may lack an operation at the first values, so that their groups come later. */
static void sort_groups(struct result_curve *c)
{
	bool numbers = true;
	double a, b;

	for (unsigned i = 0; i < c->count; i++)
		numbers &= number_of(c, i, &a);
	for (unsigned i = 1; i < c->count; i++)
		for (unsigned j = i; j > 0; j--) {
			const struct result_group *kept = c->groups[j];
			bool ordered = place_of(c->groups[j - 1]) <= place_of(kept);

			if (numbers && number_of(c, j - 1, &a) && number_of(c, j, &b))
				ordered = a <= b;
			if (ordered)
				break;
			c->groups[j] = c->groups[j - 1];
			c->groups[j - 1] = kept;
		}
}

static char *title_of(const struct result_curve *c)
{
	const char *between = *label_of(c->groups[0]) ? ", " : "", *name;
	json_t *values = values_of(c->groups[0]), *value;
	char *label, *title;
	FILE *to = text_open(&label);

	fputs(label_of(c->groups[0]), to);
	json_object_foreach(values, name, value)
		if (strcmp(name, c->name) != 0) {
			fprintf(to, "%s%s=%s", between, name, text_of(value));
			between = ", ";
		}
	fclose(to);
	title = group_title(c->groups[0], label);
	free(label);
	return title;
}

void curves_make(struct result *r)
{
	for (unsigned i = 0; i < r->group_count; i++) {
		struct result_curve *to;

		if (!json_object_size(values_of(&r->groups[i])))
			continue;
		to = find_curve(r, &r->groups[i]);
		to->groups = must(reallocarray(to->groups, to->count + 1, sizeof(*to->groups)));
		to->groups[to->count++] = &r->groups[i];
	}
	for (unsigned i = 0; i < r->curve_count; i++) {
		sort_groups(&r->curves[i]);
		r->curves[i].title = title_of(&r->curves[i]);
	}
}

void curves_free(struct result *r)
{
	for (unsigned i = 0; i < r->curve_count; i++) {
		free(r->curves[i].groups);
		free(r->curves[i].title);
	}
	free(r->curves);
}

const char *curve_value(const struct result_curve *c, unsigned i)
{
	return text_of(json_object_get(values_of(c->groups[i]), c->name));
}

int curve_row(const struct result_curve *c, unsigned i, const char *listener)
{
	const struct result_group *g = c->groups[i];

	for (unsigned row = 0; row < g->count; row++)
		if (!strcmp(g->rows[row].row->listener, listener))
			return (int)row;
	return -1;
}

const char *curve_listener(const struct result_curve *c, unsigned place)
{
	for (unsigned i = 0; i < c->count; i++)
		for (unsigned row = 0; row < c->groups[i]->count; row++) {
			const char *listener = c->groups[i]->rows[row].row->listener;
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

static enum verdict_is is_at(const struct result_curve *c, unsigned i, const char *listener)
{
	int row = curve_row(c, i, listener);

	return row > 0 ? c->groups[i]->rows[row].verdicts[JUDGED_COST].is : VERDICT_NOT_COMPARABLE;
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
static void print_values(FILE *to, const struct result_curve *c, unsigned from, unsigned end)
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
static bool find_crossing(const struct result_curve *c, const char *listener, unsigned *ret_from,
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
static void print_listener(FILE *to, const struct result_curve *c, const char *listener,
			   unsigned place)
{
	unsigned from, end;

	for (unsigned i = 0; i < c->count; i++) {
		int row = curve_row(c, i, listener);

		if (row < 0)
			continue;
		fprintf(to, "%s%s: ", place > 1 ? "; " : "", c->groups[i]->rows[row].name);
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

char *curve_text(const struct result_curve *c)
{
	const struct result_group *g = c->groups[0];
	bool judged = false;
	const char *listener;
	char *text;
	FILE *to;

	for (unsigned i = 0; i < c->count; i++)
		judged |= c->groups[i]->judged;
	if (!judged)
		return NULL;
	to = text_open(&text);
	fprintf(to, "%s against %s over %s: ", figures[g->figures[JUDGED_COST]].words,
		g->rows[0].name, c->name);
	for (unsigned i = 1; (listener = curve_listener(c, i)); i++)
		print_listener(to, c, listener, i);
	putc('.', to);
	fclose(to);
	return text;
}

/* ---- Numbers ---- */

static bool all_know(const struct result_curve *c, enum figure figure)
{
	for (unsigned i = 0; i < c->count; i++)
		for (unsigned j = 0; j < c->groups[i]->count; j++)
			if (isnan(c->groups[i]->rows[j].values[figure].median))
				return false;
	return true;
}

struct curve_figures curve_figures(const struct result_curve *c)
{
	bool trips = all_know(c, FIGURE_TRIP50) && all_know(c, FIGURE_TRIP99);

	return (struct curve_figures){
		{ c->groups[0]->figures[JUDGED_COST],
		  all_know(c, FIGURE_REQUEST_RATE) ? FIGURE_REQUEST_RATE : FIGURE_RATE,
		  trips ? FIGURE_TRIP50 : FIGURE_P50, trips ? FIGURE_TRIP99 : FIGURE_P99 }
	};
}
