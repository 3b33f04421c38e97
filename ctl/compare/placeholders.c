/* See placeholders.h. */
#include "placeholders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

const char *const placeholder_names[PLACEHOLDER_COUNT] = { "{host}", "{port}", "{uri}",
							   "{listener}" };

struct brace {
	const char *text;
	size_t bytes;   /* with its braces */
	bool doubled;   /* `{{word}}` */
	unsigned which; /* PLACEHOLDER_COUNT: unknown */
};

/* The first one in text; false: none. */
static bool find_brace(const char *text, struct brace *ret)
{
	for (const char *at = text; (at = strchr(at, '{')); at++) {
		bool doubled = at[1] == '{';
		const char *word = at + 1 + doubled;
		size_t bytes = strspn(word, "abcdefghijklmnopqrstuvwxyz_");

		if (bytes == 0 || word[bytes] != '}' || (doubled && word[bytes + 1] != '}') ||
		    (at > text && strchr("$%", at[-1])))
			continue;
		*ret = (struct brace){ at, bytes + 2 + 2 * doubled, doubled, 0 };
		while (ret->which < PLACEHOLDER_COUNT &&
		       (doubled || strlen(placeholder_names[ret->which]) != ret->bytes ||
			strncmp(placeholder_names[ret->which], at, ret->bytes) != 0))
			ret->which++;
		return true;
	}
	return false;
}

bool placeholders_used(char *const *argv)
{
	struct brace brace;

	for (; *argv; argv++)
		for (const char *at = *argv; find_brace(at, &brace); at = brace.text + brace.bytes)
			if (brace.which < PLACEHOLDER_COUNT)
				return true;
	return false;
}

const char *placeholders_unknown(char *const *argv, int *ret_bytes)
{
	struct brace brace;

	for (; *argv; argv++)
		for (const char *at = *argv; find_brace(at, &brace); at = brace.text + brace.bytes)
			if (brace.which == PLACEHOLDER_COUNT && !brace.doubled) {
				*ret_bytes = (int)brace.bytes;
				return brace.text;
			}
	return NULL;
}

char *placeholders_fill(const char *word, const char *const *values, const char **ret_missing)
{
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);
	struct brace brace;

	if (!to)
		abort();
	for (; find_brace(word, &brace); word = brace.text + brace.bytes) {
		const char *value =
			values && brace.which < PLACEHOLDER_COUNT ? values[brace.which] : NULL;

		fwrite(word, 1, (size_t)(brace.text - word), to);
		if (brace.doubled)
			fwrite(brace.text + 1, 1, brace.bytes - 2, to);
		else if (value)
			fputs(value, to);
		if (value && !*value)
			*ret_missing = placeholder_names[brace.which];
	}
	fputs(word, to);
	fclose(to);
	return text;
}
