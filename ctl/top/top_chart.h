/* Charts of `nbctl top`, drawn with characters: sparklines, bars, and the bins of
 * a histogram.  Pure. */
#pragma once
#include <stdbool.h>

#include "top_model.h"

/* The number of ticks per character, so that `width` characters show the last `ticks` as far as
 * they are known. */
unsigned top_spark_group(const struct top *top, unsigned width, unsigned ticks);

/* Values (NAN: unknown, shown as a space) as `width` characters between 0 and their maximum, for
 * CPU time at least 10 % of a CPU: each is the mean of `group` values.  The values end at tick
 * `end`; groups begin at multiples of `group`, so that a character never changes once it is
 * complete.  To be freed. */
char *top_sparkline(const struct top *top, const char *listener, enum top_series series,
		    unsigned width, unsigned group, bool utf8);

/* Bins of a histogram of latencies. */
struct top_bin {
	uint64_t from_ns, to_ns; /* above from_ns, up to to_ns */
	uint64_t count;
};

/* Divides a histogram into at most `max` bins, as fine as fits: six, three, two or one for each
 * power of ten, or one for several.  Their number; 0 when the histogram is empty. */
unsigned top_bins(const struct histogram_sum *h, struct top_bin *bins, unsigned max);

/* `share` of 1 as a bar of at most `width` columns; to be freed. */
char *top_bar(double share, unsigned width, bool utf8);
