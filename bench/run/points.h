/* The points of `compare --sweep NAME=VALUE,...`: one for each combination of the values, or a
 * single one without it.  Each has its command and its label. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "ctl.h"

enum { POINTS_MAX = 1000 };

struct point {
	char *label;    /* its rows' label: --label and the point's values */
	char **command; /* NULL-terminated, with placeholders such as {port} */
	json_t *values; /* by the names of --sweep */
	json_t *sweep;  /* see conditions.h; NULL: there is no --sweep */
};

struct points {
	json_t *sweeps; /* { NAME: [VALUE, ...], ... }; the last is the first to change */
	struct point *list;
	unsigned count;
};

/* sweeps: the values of --sweep, NULL-terminated; label: of --label; NULL: not given.  CTL_DONE, or
 * CTL_USAGE with the error printed.  points_fini() in both cases. */
int points_init(struct points *p, struct ctl *ctl, char **sweeps, const char *label);
void points_fini(struct points *p);

/* The text with the point's values for `{NAME}`, to be freed.  last: see brace_fill(). */
char *point_fill(const struct point *point, const char *text, bool last);

/* Does any of the words (NULL-terminated; NULL: none) have the `{NAME}` of a sweep? */
bool points_in(const struct points *p, char *const *words);
