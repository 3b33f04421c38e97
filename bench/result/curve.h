/* The groups of a sweep as curves: the same listeners over the values of its first placeholder, for
 * each combination of the others.  Pure. */
#pragma once
#include "result.h"

struct result_curve {
	const char *name; /* of the placeholder */
	char *title;      /* "nbd read: fio, d=10us": without the value of its own */
	/* One for each value: in rising order if all are numbers, else in that of the sweep. */
	const struct result_group **groups;
	unsigned count;
	json_t *listeners; /* names of those that have rows, in order of appearance */
};

const char *curve_value(const struct result_curve *c, unsigned i);

/* The listener's row in group i; NULL: it has none. */
const struct result_row *curve_row(const struct result_curve *c, unsigned i, const char *listener);

/* The listener at that place; NULL: there are no more. */
const char *curve_listener(const struct result_curve *c, unsigned place);

/* What the verdicts tell over the values, and where they cross; to be freed.  NULL:
 * nothing is judged. */
char *curve_text(const struct result_curve *c);

/* The cost, the rate and the latencies that are drawn: the generator's where it told them. */
enum { CURVE_FIGURES = 4 };
struct curve_figures {
	enum figure list[CURVE_FIGURES];
};
struct curve_figures curve_figures(const struct result_curve *c);

/* Steps of result_new(), see steps.h. */
void curves_make(struct result *r);
void curves_free(struct result *r);
/* Do both groups belong to the same sweep, whatever their values?  The intervals of a
 * sweep hold together. */
bool curve_has_both(const struct result_group *a, const struct result_group *b);
