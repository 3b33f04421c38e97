/* Sweeps: `--sweep NAME=VALUE,...` runs a comparison once with each value, and several
 * sweeps with each combination of their values.  Replaces `{NAME}` in texts by the value
 * in one combination.  Pure. */
#pragma once
#include <stdbool.h>

#include "reason.h"

enum { SWEEPS_MAX = 8, SWEEP_COMBINATIONS_MAX = 1000 };

struct sweep {
	char *name; /* owns the memory of the values, too */
	const char **values;
	unsigned count;
};

struct sweeps {
	struct sweep list[SWEEPS_MAX];
	unsigned count;
};

/* Adds a sweep.  0, or -EINVAL with the reason.  sweeps_fini() in both cases. */
int sweeps_add(struct sweeps *s, const char *text, struct reason *reason);
void sweeps_fini(struct sweeps *s);

/* The number of combinations, at least 1.  A caller refuses more than SWEEP_COMBINATIONS_MAX. */
unsigned sweeps_combinations(const struct sweeps *s);

/* The value of sweep i in a combination; the last sweep is the first to change. */
const char *sweeps_value(const struct sweeps *s, unsigned i, unsigned combination);

/* The text with the values of a combination, to be freed.  last: see brace_fill(). */
char *sweeps_fill(const struct sweeps *s, unsigned combination, const char *text, bool last);

/* Does the text contain `{NAME}` of sweep i? */
bool sweeps_names(const struct sweeps *s, unsigned i, const char *text);
