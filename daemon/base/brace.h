/* Words in braces in a text: `{port}` stands for a value, `{{port}}` for the text `{port}`.  What a
 * shell or a format reads, `${name}` and `%{name}`, is no such word, nor is anything but lower-case
 * letters and underscores.  Pure. */
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

/* The text with value()'s results for its words, to be freed; one with NULL stays as it is. Doubled
 * words lose a pair of braces if this is the last filling, or stay, too. */
char *brace_fill(const char *text,
		 const char *(*value)(const void *context, const struct brace *brace),
		 const void *context, bool last);
