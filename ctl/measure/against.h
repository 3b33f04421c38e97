/* Then and now: rows beside saved ones of the same name, and the changes between them.  The verdict
 * counts each run of `compare` as one value, the median of its visits: all visits of a run share
 * the state of the machine at that time, so they are not independent.  Pure. */
#pragma once
#include "compare_gate.h"
#include "compare_group.h"
#include "render.h"

/* A row of today. */
struct against_row {
	double then, now; /* cost, the median of the runs; NaN: unknown */
	unsigned runs_then, runs_now;
	bool other_setup; /* the saved rows are of another command, host, kernel or configuration */
	enum gate gate;
};

struct against {
	/* One group for each row of today: the saved row, then today's with the verdict on it; or
	 * today's alone, if none was saved. */
	struct groups groups;
	struct against_row *rows; /* of each group */
	unsigned found;           /* rows that have a saved one */
	json_t *changed; /* [{ "what": "kernel", "then": "Linux 6.1", "now": "Linux 6.12" }] */
	double within;   /* see struct measures */
	enum gate gate;  /* of all rows */
};

/* Matches rows of both by label, listener, service, operation and setup (not by build, which is
 * compared); both are merged, and must outlive *ret.  force: the setups may differ.  A run that is
 * in both counts for `now` alone. */
void against_init(struct against *ret, const struct measures *then, const struct measures *now,
		  bool force);
void against_fini(struct against *a);

/* What differs between the visits of two sets of rows; a new array, see struct against. */
json_t *against_changes(const struct groups *pairs);

/* "48 to 51 % less", "too few runs: 1 of 5", "no saved row" */
struct phrase against_words(const struct against *a, unsigned i);
/* How many got worse, better, neither; a sentence that the caller frees. */
char *against_summary(const struct against *a);

extern const char against_nothing_changed[]; /* a sentence for an empty `changed` */

/* The table, what changed, and the summary. */
void against_render(struct output *out, const struct against *a);
json_t *against_to_json(const struct against *a); /* a new reference */
