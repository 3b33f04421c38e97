/* "Did you mean": the nearest of some names, by edit distance.  Pure. */
#pragma once

enum {
	SUGGEST_MAX = 64,      /* bytes; longer texts get no suggestion */
	SUGGEST_HINT_MAX = 96, /* bytes of suggest_hint() with the NUL */
};

/* Initialise with { .text = the unknown name }, then call suggest_try() for each valid name. */
struct suggestion {
	const char *text;
	const char *best; /* the nearest name, owned by the caller; NULL: none is near enough */
	unsigned distance;
	char hint[SUGGEST_HINT_MAX];
};

/* A name is near when at most a third of text, but at least one character, has to be changed,
 * inserted, removed or swapped with its neighbour, or when it begins with text.  Of equally near
 * names the first wins. */
void suggest_try(struct suggestion *s, const char *name);

/* ` (did you mean 'NAME'?)` for the end of a message; "" if no name is near or one is equal.
 * Stored in s. */
const char *suggest_hint(struct suggestion *s);
