/* Throughput and connections over the time of an interval, from GetStats documents taken
 * during it.  Pure. */
#pragma once
#include "measure.h"

/* Sets the timeline of each row of m from `first` on, which row->source owns, and the largest
 * number of connections that were open at once.  documents: array of GetStats replies in order of
 * time, including those at the beginning and end of the rows' interval. */
void timeline_set(struct measures *m, unsigned first, const json_t *documents);

/* Point `i` of a row's timeline: operations per second over *ret_ns nanoseconds, which follow those
 * of the point before.  False: no such point. */
bool timeline_point(const struct measure *row, unsigned i, uint64_t *ret_ns, double *ret_rate);
