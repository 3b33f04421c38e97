/* See limit.h. */
#include "limit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"
#include "steps.h"
#include "text.h"
#include "util.h"

/* Short names; the figures' own names, as in JSON, are known as well. */
static const struct {
	const char *name;
	struct limit is;
} aliases[] = {
	{ "cost", { .figure = FIGURE_CPU_PER_OP, .judged = JUDGED_COST } },
	{ "calls", { .figure = FIGURE_SYSCALLS_PER_OP, .judged = JUDGED_CALLS } },
	{ "rate", { .figure = FIGURE_RATE, .judged = JUDGED_RATE } },
	{ "p50", { .figure = FIGURE_P50, .judged = JUDGED_COUNT } },
	{ "p99", { .figure = FIGURE_P99, .judged = JUDGED_COUNT } },
	{ "p99.9", { .figure = FIGURE_P99_9, .judged = JUDGED_COUNT } },
	{ "trip50", { .figure = FIGURE_TRIP50, .judged = JUDGED_COUNT } },
	{ "trip99", { .figure = FIGURE_TRIP99, .judged = JUDGED_COUNT } },
};

/* The units of a limit, by a part of the figure's name; scale: from the unit to that of JSON. */
static const struct kind {
	const char *part, *expected;
	struct {
		const char *name;
		double scale;
	} units[4];
} kinds[] = {
	{ "_ns",
	  "a time with its unit, such as 200us (ns, us, ms, s)",
	  { { "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 } } },
	{ "_share", "a part of a CPU, such as 80% or 0.8", { { "%", 0.01 }, { "", 1 } } },
	{ "",
	  "a number, such as 100k (k, M, G)",
	  { { "", 1 }, { "k", 1e3 }, { "M", 1e6 }, { "G", 1e9 } } },
};

/* False: there is no such figure, and the error says which there are. */
static bool find_figure(const char *name, struct limit *l, char error[LIMIT_ERROR_BYTES])
{
	snprintf(error, LIMIT_ERROR_BYTES, "there is no figure '%.40s'; there are", name);
	for (unsigned i = 0; i < ARRAY_SIZE(aliases); i++) {
		if (!strcmp(name, aliases[i].name)) {
			*l = aliases[i].is;
			return true;
		}
		text_append(error, LIMIT_ERROR_BYTES, " %s,", aliases[i].name);
	}
	text_append(error, LIMIT_ERROR_BYTES, " and those of nbbench(1), COLUMNS");
	for (l->figure = 0; l->figure < FIGURE_COUNT; l->figure++)
		if (!strcmp(name, figures[l->figure].name))
			return true;
	return false;
}

/* False: they are no number above 0 with one of the units. */
static bool set_value(struct limit *l, const struct kind *kind, const char *digits,
		      const char *unit)
{
	char *end;

	for (unsigned i = 0; i < ARRAY_SIZE(kind->units) && kind->units[i].name; i++)
		if (!strcmp(unit, kind->units[i].name)) {
			l->value = strtod(digits, &end) * kind->units[i].scale;
			return !*end && l->value > 0;
		}
	return false;
}

bool limit_parse(const char *text, struct limit *ret, char error[LIMIT_ERROR_BYTES])
{
	/* A number has no sign, exponent, `inf` or `nan`; the longest unit has two letters. */
	char name[64], sign[2], digits[24], unit[4] = "", more;
	int parts = sscanf(text, " %63[^ <>] %1[<>] %23[0-9.] %3[^ ] %c", name, sign, digits, unit,
			   &more);
	const struct kind *kind = kinds;
	struct limit l = { .judged = JUDGED_COUNT };

	if (parts < 2) {
		snprintf(error, LIMIT_ERROR_BYTES,
			 "expected FIGURE>LIMIT or FIGURE<LIMIT, such as p99>200us or rate<100k");
		return false;
	}
	if (!find_figure(name, &l, error))
		return false;
	l.below = *sign == '<';
	while (!strstr(figures[l.figure].name, kind->part))
		kind++;
	if (parts < 3 || parts > 4 || !set_value(&l, kind, digits, unit)) {
		snprintf(error, LIMIT_ERROR_BYTES, "behind %s%s comes %s%s", name, sign,
			 kind->expected,
			 strstr(text, "first") ? "; rows are judged against others by --build "
						 "and --against"
					       : "");
		return false;
	}
	*ret = l;
	return true;
}

static enum gate gate_by(const struct value *v, const struct limit *l)
{
	double inner = l->below ? v->upper : v->lower, outer = l->below ? v->lower : v->upper;

	if (isnan(v->lower))
		return GATE_UNKNOWN;
	if (l->below ? inner < l->value : inner > l->value)
		return GATE_FAILED;
	return (l->below ? outer >= l->value : outer <= l->value) ? GATE_PASSED : GATE_UNDECIDED;
}

static enum figure figure_of(const struct limit *l, const struct result_group *g,
			     const struct result_row *row)
{
	enum figure figure = l->judged == JUDGED_COUNT ? l->figure : g->figures[l->judged];

	/* The limit's own figure, by operations, where the group has none: `calls` if operations
	 * are batches, `rate` if the generator's requests are not known. */
	if (figure == FIGURE_COUNT ||
	    (l->judged == JUDGED_RATE && isnan(row->values[figure].median)))
		return l->figure;
	return figure;
}

struct limits *limits_new(const struct limit *list, unsigned count, const struct result *r)
{
	struct limits *l = must(calloc(1, sizeof(*l)));
	unsigned counts[GATES] = { 0 };

	for (unsigned i = 0; i < count; i++)
		for (struct result_at at = { 0 }; result_next(r, &at);) {
			enum figure figure = figure_of(&list[i], at.group, at.row);
			enum gate gate = gate_by(&at.row->values[figure], &list[i]);

			l = must(realloc(l, sizeof(*l) + (l->count + 1) * sizeof(*l->cases)));
			l->cases[l->count++] =
				(struct limit_case){ &list[i], at.group, at.row, figure, gate };
			counts[gate]++;
		}
	l->gate = gate_of_all(counts);
	return l;
}
