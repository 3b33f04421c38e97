/* The cost of sampled rows in each layer, and its difference from the first row.  Pure.
 *
 * A sampled interval has in its row, saved as "layers": { "event": "cpu-clock", "samples": 312,
 * "lost": 0, "stripped": false, "weights": { "tcp_ip": 123456, ... by the names of
 * layer_infos }, "other": { FUNCTION: weight of those that no layer names } }; weights are
 * nanoseconds of cpu-clock, or cycles.  Times are of samples: a layer costs its share of them times
 * the CPU time that is charged to the listener, so that the layers' sum is the row's cost. */
#pragma once
#include "layers_table.h"
#include "result.h"

enum { LAYERS_OTHER_SHOWN = 5 };
#define LAYERS_SEEN_WITHIN 0.02 /* of the samples' time and the charged one, but for chance */

struct layers_row {
	bool known;             /* it was sampled */
	double ns[LAYER_COUNT]; /* in the unit of the group's cost */
	/* On the differences from the first row, in that unit.  The intervals of all layers and
	 * rows of the group hold together, see verdict.h.  Unset in the first row. */
	struct verdict verdicts[LAYER_COUNT];
	uint64_t samples, lost;
	/* A check: the time of the samples over the CPU time that the kernel charged, which are
	 * measured independently; and how far this ratio is from 1 by chance in 95 of 100 cases.
	 * NaN: the samples are of cycles. */
	double seen, seen_chance;
	bool stripped; /* nbserved has no symbols: all of its functions count as its core */
	json_t *other; /* functions that no layer names: their share of all time, the largest first
			*/
};

struct layers_group {
	const struct result_group *group;
	bool shown[LAYER_COUNT]; /* a row spends time there */
	struct layers_row *rows; /* one for each of the group's */
};

/* NULL: none of the rows was sampled.  layers_group_free(): NULL is allowed. */
struct layers_group *layers_group_new(const struct result_group *g);
void layers_group_free(struct layers_group *l);
