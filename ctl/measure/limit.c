/* The text of a limit.  See limit.h; limit_judge.c holds rows against it. */
#include "limit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "util.h"

/* Short names; the figures' own names, as in JSON, are known as well. */
static const struct alias {
	const char *name;
	enum figure figure;
	bool cost, rate;
} aliases[] = {
	{ "cost", FIGURE_CPU_PER_OP, true, false },
	{ "rate", FIGURE_RATE, false, true },
	{ "p50", FIGURE_P50, false, false },
	{ "p99", FIGURE_P99, false, false },
	{ "p99.9", FIGURE_P99_9, false, false },
	{ "p99.99", FIGURE_P99_99, false, false },
	{ "trip50", FIGURE_TRIP50, false, false },
	{ "trip99", FIGURE_TRIP99, false, false },
	{ "calls", FIGURE_SYSCALLS_PER_OP, false, false },
};

enum kind { KIND_TIME = 1, KIND_SHARE = 2, KIND_NUMBER = 4 };

static const struct unit {
	const char *name;
	double scale; /* to the unit of JSON */
	unsigned kinds;
} units[] = {
	{ "ns", 1, KIND_TIME },    { "us", 1e3, KIND_TIME },  { "ms", 1e6, KIND_TIME },
	{ "s", 1e9, KIND_TIME },   { "%", 0.01, KIND_SHARE }, { "", 1, KIND_SHARE | KIND_NUMBER },
	{ "k", 1e3, KIND_NUMBER }, { "M", 1e6, KIND_NUMBER }, { "G", 1e9, KIND_NUMBER },
};

static const struct form {
	enum kind kind;
	const char *expected;
} forms[] = {
	{ KIND_TIME, "a time with its unit, such as 200us (ns, us, ms, s)" },
	{ KIND_SHARE, "a part of a CPU, such as 80% or 0.8" },
	{ KIND_NUMBER, "a number, such as 100k (k, M, G)" },
};

static enum kind kind_of(const struct limit *l)
{
	const char *name = figures[l->figure].name;

	if (l->cost || strstr(name, "_ns"))
		return KIND_TIME;
	return strstr(name, "_share") ? KIND_SHARE : KIND_NUMBER;
}

static bool is_word(const char *text, size_t bytes, const char *word)
{
	return strlen(word) == bytes && !strncmp(text, word, bytes);
}

static bool find_figure(const char *text, size_t bytes, struct limit *l)
{
	for (unsigned i = 0; i < ARRAY_SIZE(aliases); i++)
		if (is_word(text, bytes, aliases[i].name)) {
			l->figure = aliases[i].figure;
			l->cost = aliases[i].cost;
			l->rate = aliases[i].rate;
			return true;
		}
	for (unsigned i = 0; i < FIGURE_COUNT; i++)
		if (is_word(text, bytes, figures[i].name)) {
			l->figure = i;
			return true;
		}
	return false;
}

static void list_figures(const char *text, size_t bytes, char error[LIMIT_ERROR_BYTES])
{
	snprintf(error, LIMIT_ERROR_BYTES, "there is no figure '%.*s'; there are ",
		 (int)MIN(bytes, (size_t)40), text);
	for (unsigned i = 0; i < ARRAY_SIZE(aliases); i++)
		text_append(error, LIMIT_ERROR_BYTES, "%s, ", aliases[i].name);
	for (unsigned i = 0; i < FIGURE_COUNT; i++)
		text_append(error, LIMIT_ERROR_BYTES, "%s%s", figures[i].name,
			    i + 1 < FIGURE_COUNT ? ", " : "");
}

/* Digits and a point alone: no sign, exponent, `inf` or `nan`.  Returns their length; 0: none. */
static size_t parse_number(const char *text, double *ret)
{
	size_t bytes = strspn(text, "0123456789.");
	char digits[24], *end;

	if (bytes == 0 || bytes >= sizeof(digits))
		return 0;
	memcpy(digits, text, bytes);
	digits[bytes] = '\0';
	*ret = strtod(digits, &end);
	return *end || !(*ret > 0) ? 0 : bytes;
}

static const char *skip(const char *text)
{
	return text + strspn(text, " \t");
}

/* The text has nothing but the word, and spaces. */
static bool is_rest(const char *text, const char *word)
{
	size_t bytes = strcspn(text, " \t");

	return is_word(text, bytes, word) && !*skip(text + bytes);
}

static bool parse_value(const char *text, struct limit *l)
{
	size_t bytes = parse_number(text, &l->value);
	const char *rest = skip(text + bytes);

	if (bytes == 0 || *rest == '*') {
		l->value = bytes ? l->value : 1;
		l->of_first = is_rest(bytes ? skip(rest + 1) : text, "first");
		return l->of_first;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(units); i++)
		if (units[i].kinds & (unsigned)kind_of(l) && is_rest(rest, units[i].name)) {
			l->value *= units[i].scale;
			return true;
		}
	return false;
}

bool limit_parse(const char *text, struct limit *ret, char error[LIMIT_ERROR_BYTES])
{
	struct limit l = { 0 };
	const char *name = skip(text), *sign;
	size_t bytes = strcspn(name, " \t<>");

	sign = skip(name + bytes);
	if (bytes == 0 || (*sign != '<' && *sign != '>')) {
		snprintf(error, LIMIT_ERROR_BYTES,
			 "expected FIGURE>LIMIT or FIGURE<LIMIT, such as p99>200us or "
			 "cost>1.1*first");
		return false;
	}
	if (!find_figure(name, bytes, &l)) {
		list_figures(name, bytes, error);
		return false;
	}
	l.below = *sign == '<';
	if (!parse_value(skip(sign + 1), &l)) {
		unsigned i = 0;

		while (forms[i].kind != kind_of(&l))
			i++;
		snprintf(error, LIMIT_ERROR_BYTES,
			 "behind %.*s%c comes %s, or a factor of the first row, such as 1.1*first",
			 (int)bytes, name, *sign, forms[i].expected);
		return false;
	}
	*ret = l;
	return true;
}
