/* See curve.h. */
#include "curve.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "must.h"
#include "steps.h"
#include "text.h"

/* ---- Which groups make a curve ---- */

/* The values of the group's point, { "c": "10", "d": "0" }, owned by its row; NULL: there is no
 * sweep.  Curves are drawn over those of the first placeholder. */
static json_t *values_of(const struct result_group *g)
{
	return field_get(g->rows[0].row->conditions, "sweep.values");
}

static const char *axis_of(const struct result_group *g)
{
	return json_object_iter_key(json_object_iter(values_of(g)));
}

static const char *label_of(const struct result_group *g)
{
	return field_text(g->rows[0].row->conditions, "sweep.label");
}

bool curve_has_both(const struct result_group *a, const struct result_group *b)
{
	size_t names = json_object_size(values_of(a));

	return names && json_object_size(values_of(b)) == names &&
	       !strcmp(axis_of(a), axis_of(b)) && !strcmp(a->service, b->service) &&
	       !strcmp(a->operation, b->operation) && !strcmp(a->pair, b->pair) &&
	       !strcmp(label_of(a), label_of(b));
}

/* The title of a curve: its load, and the values of the other placeholders. */
static char *title_of(const struct result_group *g)
{
	const char *between = *label_of(g) ? ", " : "", *name;
	char *label, *title;
	json_t *value;
	FILE *to = text_open(&label);

	fputs(label_of(g), to);
	json_object_foreach(values_of(g), name, value)
		if (strcmp(name, axis_of(g)) != 0) {
			fprintf(to, "%s%s=%s", between, name, field_text(value, ""));
			between = ", ";
		}
	fclose(to);
	title = group_title(g, label);
	free(label);
	return title;
}

static struct result_curve *find_curve(struct result *r, const struct result_group *g)
{
	char *title = title_of(g);

	for (unsigned i = 0; i < r->curve_count; i++)
		if (!strcmp(r->curves[i].name, axis_of(g)) && !strcmp(r->curves[i].title, title)) {
			free(title);
			return &r->curves[i];
		}
	r->curves = must(reallocarray(r->curves, r->curve_count + 1, sizeof(*r->curves)));
	r->curves[r->curve_count] = (struct result_curve){ .name = axis_of(g),
							   .title = title,
							   .listeners = json_array() };
	return &r->curves[r->curve_count++];
}

/* False: the value is a word, or has a unit. */
static bool is_number(const struct result_curve *c, unsigned i)
{
	const char *text = curve_value(c, i);
	char *end;

	strtod(text, &end);
	return end != text && !*end;
}

/* A listener may lack an operation at the first values, so that their groups come later. */
static void sort_groups(struct result_curve *c)
{
	for (unsigned i = 0; i < c->count; i++)
		if (!is_number(c, i))
			return;
	for (unsigned i = 1; i < c->count; i++)
		for (unsigned j = i;
		     j > 0 && strtod(curve_value(c, j - 1), NULL) > strtod(curve_value(c, j), NULL);
		     j--) {
			const struct result_group *kept = c->groups[j];

			c->groups[j] = c->groups[j - 1];
			c->groups[j - 1] = kept;
		}
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
		struct result_curve *c = &r->curves[i];

		sort_groups(c);
		for (unsigned j = 0; j < c->count; j++)
			for (unsigned k = 0; k < c->groups[j]->count; k++)
				field_add_once(c->listeners,
					       json_string(c->groups[j]->rows[k].row->listener));
	}
}

void curves_free(struct result *r)
{
	for (unsigned i = 0; i < r->curve_count; i++) {
		free(r->curves[i].groups);
		free(r->curves[i].title);
		json_decref(r->curves[i].listeners);
	}
	free(r->curves);
}

const char *curve_value(const struct result_curve *c, unsigned i)
{
	return field_text(json_object_get(values_of(c->groups[i]), c->name), "");
}

const char *curve_listener(const struct result_curve *c, unsigned place)
{
	return json_string_value(json_array_get(c->listeners, place));
}

const struct result_row *curve_row(const struct result_curve *c, unsigned i, const char *listener)
{
	const struct result_group *g = c->groups[i];

	for (unsigned row = 0; row < g->count; row++)
		if (!strcmp(g->rows[row].row->listener, listener))
			return &g->rows[row];
	return NULL;
}

/* ---- Words ---- */

static enum verdict_is is_at(const struct result_curve *c, unsigned i, const char *listener)
{
	const struct result_row *row = curve_row(c, i, listener);

	return row && row != c->groups[i]->rows ? row->verdicts[JUDGED_COST].is
						: VERDICT_NOT_COMPARABLE;
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
	const struct result_row *row = NULL;
	unsigned from, end;

	for (unsigned i = 0; !row; i++)
		row = curve_row(c, i, listener);
	fprintf(to, "%s%s: ", place > 1 ? "; " : "", row->name);
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
