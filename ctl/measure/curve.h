/* The groups of a sweep as curves: the same listeners over the values of its first placeholder, for
 * each combination of the others.  Pure. */
#pragma once
#include "compare_group.h"

struct curve {
	const char *name; /* of the placeholder */
	const struct group **
		groups; /* one for each value, in the order of the sweep, by its places; borrowed */
	unsigned count;
};

struct curves {
	struct curve *list;
	unsigned count;
};

/* all must outlive them.  curves_fini() frees them. */
void curves_init(struct curves *c, const struct groups *all);
void curves_fini(struct curves *c);

/* Do both groups belong to the same sweep, whatever their values?  The intervals of a
 * sweep hold together. */
bool curve_has_both(const struct group *a, const struct group *b);

const char *curve_value(const struct curve *c, unsigned i);

/* "nbd read: fio, d=10us": without the value of its own; to be freed. */
char *curve_title(const struct curve *c);

/* The listener's row in group i; -1: it has none. */
int curve_row(const struct curve *c, unsigned i, const char *listener);

/* The listener at a place among those that have rows; NULL: there are no more. */
const char *curve_listener(const struct curve *c, unsigned place);

/* What the verdicts tell over the values, and where they cross; to be freed.  NULL:
 * nothing is judged. */
char *curve_text(const struct curve *c);

/* The interval of a figure by its visits, by ranks as for verdicts: it holds in 95 of 100 runs by
 * itself.  NaN: too few visits. */
struct interval {
	double low, high;
};
struct interval curve_interval(const struct measure *row, enum figure figure);

/* The cost, the rate and the latencies that are drawn: the generator's where it told them. */
enum { CURVE_FIGURES = 4 };
struct curve_figures {
	enum figure list[CURVE_FIGURES];
};
struct curve_figures curve_figures(const struct curve *c);

/* [{ "name", "title", "values": [...], "conclusion", "listeners": [{ "listener", "figures":
 * { "cpu_ns_per_request": [[value, low, high], ...] } }] }], a new reference; NULL: there are none.
 */
json_t *curves_to_json(const struct groups *all);
