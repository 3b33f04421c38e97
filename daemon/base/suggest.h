/* "Did you mean": the nearest of some names, by edit distance.  Pure. */
#pragma once

enum {
	SUGGEST_MAX = 64,      /* bytes: longer texts are no typing errors */
	SUGGEST_HINT_MAX = 96, /* of suggest_hint() */
};

/* Start with { .text = what was written }, then call suggest_try() for each name there is. */
struct suggestion {
	const char *text;
	const char *best; /* NULL while no name is near enough; points to a name */
	unsigned distance;
	char hint[SUGGEST_HINT_MAX];
};

/* A name is near when at most a third of text, but at least one character, has to be changed,
 * inserted, removed or swapped with its neighbour, or when text is how it begins.  The first of the
 * nearest wins. */
void suggest_try(struct suggestion *s, const char *name);

/* ` (did you mean 'NAME'?)` to end a message with; "" when no name is near, or one is the text.  In
 * s. */
const char *suggest_hint(struct suggestion *s);
