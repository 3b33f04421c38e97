/* See placeholders.h. */
#include "placeholders.h"

#include <string.h>

#include "brace.h"

const char *const placeholder_names[PLACEHOLDER_COUNT] = { "host",     "port",   "uri",
							   "listener", "client", "index" };

/* The placeholder that stands in the braces; PLACEHOLDER_COUNT: it is unknown. */
static unsigned placeholder_of(const struct brace *brace)
{
	unsigned which = 0;

	while (which < PLACEHOLDER_COUNT && !brace_is(brace, placeholder_names[which]))
		which++;
	return which;
}

bool placeholders_used(char *const *argv)
{
	struct brace brace;

	for (; *argv; argv++)
		for (const char *at = *argv; brace_find(at, &brace); at = brace.text + brace.bytes)
			if (placeholder_of(&brace) < PLACEHOLDER_VISITS)
				return true;
	return false;
}

const char *placeholders_unknown(char *const *argv, int *ret_bytes)
{
	struct brace brace;

	for (; *argv; argv++)
		for (const char *at = *argv; brace_find(at, &brace); at = brace.text + brace.bytes)
			if (placeholder_of(&brace) == PLACEHOLDER_COUNT && !brace.doubled) {
				*ret_bytes = (int)brace.bytes;
				return brace.text;
			}
	return NULL;
}

struct filling {
	const char *const *values;
	const char **missing;
};

static const char *value_of(const void *context, const struct brace *brace)
{
	const struct filling *f = context;
	unsigned which = placeholder_of(brace);

	if (which == PLACEHOLDER_COUNT || !f->values[which])
		return NULL;
	if (!*f->values[which])
		*f->missing = placeholder_names[which];
	return f->values[which];
}

char *placeholders_fill(const char *word, const char *const *values, const char **ret_missing)
{
	struct filling f = { values, ret_missing };

	return brace_fill(word, value_of, &f, true);
}
