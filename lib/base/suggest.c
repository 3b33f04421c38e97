/* "Did you mean".  See suggest.h. */
#include "suggest.h"

#include <stdio.h>
#include <string.h>

#include "util.h"

/* bytes; a shorter text is not compared as the beginning or end of a name */
enum { SUGGEST_PREFIX = 3 };

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	return MIN(MIN(a, b), c);
}

/* Optimal string alignment distance, row by row; both at most SUGGEST_MAX bytes. */
static unsigned edit_distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
	unsigned rows[3][SUGGEST_MAX + 1];
	unsigned *before = rows[0], *last = rows[1], *row = rows[2];

	for (unsigned j = 0; j <= b_length; j++)
		last[j] = j;
	for (unsigned i = 1; i <= a_length; i++) {
		unsigned *spare = before;

		row[0] = i;
		for (unsigned j = 1; j <= b_length; j++) {
			row[j] = min3(last[j] + 1, row[j - 1] + 1,
				      last[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = MIN(row[j], before[j - 2] + 1);
		}
		before = last;
		last = row;
		row = spare;
	}
	return last[b_length];
}

void suggest_try(struct suggestion *s, const char *name)
{
	size_t text_length = strlen(s->text), name_length = strlen(name);
	unsigned distance;

	if (text_length > SUGGEST_MAX || name_length > SUGGEST_MAX)
		return;
	if (text_length >= SUGGEST_PREFIX && text_length < name_length &&
	    (!strncmp(s->text, name, text_length) ||
	     !strcmp(s->text, name + name_length - text_length)))
		distance = 1;
	else
		distance = edit_distance(s->text, text_length, name, name_length);
	if (distance > MAX(text_length / 3, (size_t)1) || (s->best && distance >= s->distance))
		return;
	s->best = name;
	s->distance = distance;
}

const char *suggest_hint(struct suggestion *s)
{
	s->hint[0] = '\0';
	if (s->best && s->distance > 0)
		snprintf(s->hint, sizeof(s->hint), " (did you mean '%s'?)", s->best);
	return s->hint;
}
