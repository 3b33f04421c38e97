/* "Did you mean": the nearest of some names, by edit distance.  Pure. */
#pragma once

/* Start with { .text = what was written }, then call suggest_try() for each name there is. */
struct suggestion {
	const char *text;
	const char *best; /* NULL while no name is near enough; points to a name */
	unsigned distance;
};

/* A name is near when at most a third of text, but at least one character, has to be changed,
 * inserted, removed or swapped with its neighbour, or when text is how it begins.  The first of the
 * nearest wins. */
void suggest_try(struct suggestion *s, const char *name);
