/* Operations over the time of an interval, from GetStats documents that were taken on the way.
 * Pure. */
#pragma once
#include "measure.h"

/* Gives each row of m from `first` on its timeline, of which the rows' document becomes the owner:
 * documents is an array of GetStats replies in the order of time, the rows' own at both ends. */
void timeline_set(struct measures *m, unsigned first, const json_t *documents);

/* Point `i` of a row's timeline: operations per second over *ret_ns nanoseconds, which follow those
 * of the point before.  False: there is none. */
bool timeline_point(const struct measure *row, unsigned i, uint64_t *ret_ns, double *ret_rate);
