/* Placeholders in a text: `{port}` stands for a value, `{{port}}` for the text `{port}`.  Not a
 * placeholder: `${name}` and `%{name}`, which a shell or a format string reads, and anything but
 * lower-case letters and underscores.  Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct brace {
	const char *text; /* from its first brace on */
	size_t bytes;     /* with its braces */
	bool doubled;
};

/* The first one in text; false: none. */
bool brace_find(const char *text, struct brace *ret);

/* Is it `{name}`? */
bool brace_is(const struct brace *b, const char *name);

/* Replaces each placeholder by the result of value(); one for which that is NULL stays as it is.
 * The caller frees the text.  last: no further replacement follows, so doubled braces become single
 * ones; otherwise they stay. */
char *brace_fill(const char *text,
		 const char *(*value)(const void *context, const struct brace *brace),
		 const void *context, bool last);
