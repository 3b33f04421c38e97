/* Numbers, units and options, for the parsers of generators' output.  See generator_text.h. */
#include "generator_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"

/* ---- Numbers in text ---- */

bool number_at(const char *text, double *ret_value, const char **ret_end)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || !isfinite(value) || value < 0)
		return false;
	*ret_value = value;
	if (ret_end)
		*ret_end = end;
	return true;
}

bool number_after(const char *text, const char *key, double *ret_value, const char **ret_end)
{
	const char *found = strstr(text, key);

	return found && number_at(found + strlen(key), ret_value, ret_end);
}

bool number_before(const char *text, const char *key, double *ret_value)
{
	const char *end = strstr(text, key), *begin = end;

	while (begin && begin > text && strchr("0123456789.", begin[-1]))
		begin--;
	return begin != end && number_at(begin, ret_value, NULL);
}

const struct unit time_units[] = { { "us", 1e3 }, { "ms", 1e6 }, { "ns", 1 },
				   { "m", 60e9 }, { "s", 1e9 },  { NULL, 0 } };
const struct unit byte_units[] = {
	{ "KB", 1024. },          { "MB", 1048576. }, { "GB", 1073741824. },
	{ "TB", 1099511627776. }, { "B", 1 },         { NULL, 0 }
};

bool unit_at(const char *text, const struct unit *units, double *value)
{
	while (*text == ' ')
		text++;
	for (; units->text; units++)
		if (!strncmp(text, units->text, strlen(units->text))) {
			*value *= units->scale;
			return true;
		}
	return false;
}

bool measure_after(const char *text, const char *key, const struct unit *units, double *ret_value)
{
	const char *end;

	return number_after(text, key, ret_value, &end) && unit_at(end, units, ret_value);
}

void add_quantile(struct generator_result *r, double quantile, double ns)
{
	unsigned i = r->quantile_count;

	if (i == GENERATOR_QUANTILES_MAX || quantile < 0 || quantile > 1 || !(ns > 0) ||
	    ns > 9e18 || (i > 0 && r->quantiles[i - 1].quantile >= quantile))
		return;
	r->quantiles[r->quantile_count++] =
		(struct generator_quantile){ quantile, (uint64_t)(ns + 0.5) };
}

const char *last_line(const char *text, const char *start)
{
	const char *found = NULL;

	for (const char *line = text; line; line = strpbrk(line, "\r\n")) {
		line += strspn(line, "\r\n");
		if (!strncmp(line, start, strlen(start)))
			found = line;
	}
	return found;
}

/* ---- Options of the generator's command line ---- */

double option_number(char *const *argv, const char *option, double otherwise)
{
	size_t bytes = strlen(option);

	for (unsigned i = 1; argv[i]; i++) {
		const char *text = argv[i] + bytes;

		if (strncmp(argv[i], option, bytes))
			continue;
		if (!*text)
			text = argv[i + 1] ? argv[i + 1] : "";
		number_at(text + (*text == '='), &otherwise, NULL);
	}
	return otherwise;
}

/* ---- JSON ---- */

json_t *json_document(const char *text)
{
	for (const char *at = strchr(text, '{'); at; at = strchr(at + 1, '{')) {
		json_t *document = at == text || at[-1] == '\n'
					   ? json_loads(at, JSON_DISABLE_EOF_CHECK, NULL)
					   : NULL;

		if (document)
			return document;
	}
	return NULL;
}

double json_number(const json_t *object, const char *path)
{
	double value = json_number_value(field_get(object, path));

	return isfinite(value) && value > 0 ? value : 0;
}
