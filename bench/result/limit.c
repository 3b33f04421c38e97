/* See limit.h. */
#include "limit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"
#include "parts.h"
#include "text.h"
#include "util.h"

/* Short names; the figures' own names, as in JSON, are known as well. */
static const struct alias {
	const char *name;
	enum figure figure;
	enum judged judged;
} aliases[] = {
	{ "cost", FIGURE_CPU_PER_OP, JUDGED_COST },
	{ "calls", FIGURE_SYSCALLS_PER_OP, JUDGED_CALLS },
	{ "rate", FIGURE_RATE, JUDGED_RATE },
	{ "p50", FIGURE_P50, JUDGED_COUNT },
	{ "p99", FIGURE_P99, JUDGED_COUNT },
	{ "p99.9", FIGURE_P99_9, JUDGED_COUNT },
	{ "p99.99", FIGURE_P99_99, JUDGED_COUNT },
	{ "trip50", FIGURE_TRIP50, JUDGED_COUNT },
	{ "trip99", FIGURE_TRIP99, JUDGED_COUNT },
};

static const struct unit {
	const char *name;
	double scale;     /* to the unit of JSON */
	const char *part; /* of the names of figures that have it; NULL: of all others */
} units[] = {
	{ "ns", 1, "_ns" },      { "us", 1e3, "_ns" }, { "ms", 1e6, "_ns" }, { "s", 1e9, "_ns" },
	{ "%", 0.01, "_share" }, { "", 1, "_share" },  { "", 1, NULL },      { "k", 1e3, NULL },
	{ "M", 1e6, NULL },      { "G", 1e9, NULL },
};

static bool is_word(const char *text, size_t bytes, const char *word)
{
	return strlen(word) == bytes && !strncmp(text, word, bytes);
}

static bool find_figure(const char *text, size_t bytes, struct limit *l)
{
	l->judged = JUDGED_COUNT;
	for (unsigned i = 0; i < ARRAY_SIZE(aliases); i++)
		if (is_word(text, bytes, aliases[i].name)) {
			l->figure = aliases[i].figure;
			l->judged = aliases[i].judged;
			return true;
		}
	for (l->figure = 0; l->figure < FIGURE_COUNT; l->figure++)
		if (is_word(text, bytes, figures[l->figure].name))
			return true;
	return false;
}

static void list_figures(const char *text, size_t bytes, char error[LIMIT_ERROR_BYTES])
{
	snprintf(error, LIMIT_ERROR_BYTES, "there is no figure '%.*s'; there are",
		 (int)MIN(bytes, (size_t)40), text);
	for (unsigned i = 0; i < ARRAY_SIZE(aliases); i++)
		text_append(error, LIMIT_ERROR_BYTES, " %s,", aliases[i].name);
	for (unsigned i = 0; i < FIGURE_COUNT; i++)
		text_append(error, LIMIT_ERROR_BYTES, " %s%s", figures[i].name,
			    i + 1 < FIGURE_COUNT ? "," : "");
}

/* The part of the figure's name that tells its unit; NULL: it is a number. */
static const char *part_of(const struct limit *l)
{
	const char *name = figures[l->figure].name;

	return strstr(name, "_ns") ? "_ns" : strstr(name, "_share") ? "_share" : NULL;
}

/* Digits and a point alone, and a unit: no sign, exponent, `inf` or `nan`. */
static bool parse_value(const char *text, struct limit *l)
{
	size_t bytes = strspn(text, "0123456789.");
	const char *unit = text + bytes + strspn(text + bytes, " "), *part = part_of(l);
	size_t unit_bytes = strcspn(unit, " ");
	char digits[24], *end;

	if (bytes == 0 || bytes >= sizeof(digits) ||
	    unit[unit_bytes + strspn(unit + unit_bytes, " ")])
		return false;
	memcpy(digits, text, bytes);
	digits[bytes] = '\0';
	l->value = strtod(digits, &end);
	for (unsigned i = 0; i < ARRAY_SIZE(units); i++)
		if (part == NULL ? !units[i].part : units[i].part && !strcmp(part, units[i].part))
			if (is_word(unit, unit_bytes, units[i].name)) {
				l->value *= units[i].scale;
				return !*end && l->value > 0;
			}
	return false;
}

bool limit_parse(const char *text, struct limit *ret, char error[LIMIT_ERROR_BYTES])
{
	const char *name = text + strspn(text, " "), *sign, *part;
	size_t bytes = strcspn(name, " <>");
	struct limit l = { 0 };

	sign = name + bytes + strspn(name + bytes, " ");
	if (bytes == 0 || (*sign != '<' && *sign != '>')) {
		snprintf(error, LIMIT_ERROR_BYTES,
			 "expected FIGURE>LIMIT or FIGURE<LIMIT, such as p99>200us or rate<100k");
		return false;
	}
	if (!find_figure(name, bytes, &l)) {
		list_figures(name, bytes, error);
		return false;
	}
	l.below = *sign == '<';
	part = part_of(&l);
	if (!parse_value(sign + 1 + strspn(sign + 1, " "), &l)) {
		snprintf(error, LIMIT_ERROR_BYTES, "behind %.*s%c comes %s%s", (int)bytes, name,
			 *sign,
			 !part ? "a number, such as 100k (k, M, G)"
			 : !strcmp(part, "_ns")
				 ? "a time with its unit, such as 200us (ns, us, ms, s)"
				 : "a part of a CPU, such as 80% or 0.8",
			 strstr(sign, "first") ? "; rows are judged against others by --pair, "
						 "--build and --against"
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
		return GATE_NOT_COMPARABLE;
	if (l->below ? inner < l->value : inner > l->value)
		return GATE_WORSE;
	return (l->below ? outer >= l->value : outer <= l->value) ? GATE_PASSED : GATE_UNDECIDED;
}

static enum figure figure_of(const struct limit *l, const struct result_group *g,
			     const struct result_row *row)
{
	enum figure figure = l->judged == JUDGED_COUNT ? l->figure : g->figures[l->judged];

	/* Operations where requests are not known. */
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

			l->cases = must(reallocarray(l->cases, l->count + 1, sizeof(*l->cases)));
			l->cases[l->count++] =
				(struct limit_case){ &list[i], at.group, at.row, figure, gate };
			counts[gate]++;
		}
	l->gate = gate_of_all(counts);
	return l;
}

void limits_free(struct limits *l)
{
	if (l)
		free(l->cases);
	free(l);
}

/* ---- Before there are enough rounds ---- */

/* Samples of a block of visits that has the percentile; 0: it is none. */
static double samples_needed(enum figure figure)
{
	return figure == FIGURE_P50      ? 20
	       : figure == FIGURE_P99    ? 1000
	       : figure == FIGURE_P99_9  ? 10000
	       : figure == FIGURE_P99_99 ? 100000
					 : 0;
}

char *limit_hopeless(const struct limit *limit, const struct measures *m, unsigned rounds)
{
	double needed = samples_needed(limit->figure) * verdict_least_rounds(1);

	for (unsigned i = 0; i < m->count && needed > 0; i++) {
		const struct measure *row = m->rows[i];
		double samples = (double)row->latency.count * rounds;

		if (row->count && samples < needed)
			return text_new(
				"%s cannot be decided: %s has %.0f samples a visit, %.0f in %u "
				"rounds, and it takes %.0f: let each visit do %.2g times as much",
				limit->text, row->listener, (double)row->latency.count, samples,
				rounds, needed, samples > 0 ? needed / samples : INFINITY);
	}
	return NULL;
}
