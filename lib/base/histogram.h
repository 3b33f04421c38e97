/* Log-linear latency histogram with fixed memory.
 *
 * A value falls in one of 64 equal parts of its power of two, so a bucket's upper bound is at most
 * 1/64 (1.6 %) above any value in it.  Values from 0 to 2^37 - 1 ns (137 s) are kept; larger ones
 * are counted in the last bucket.  One writer, any number of readers (relaxed atomics). */
#pragma once
#include <stdatomic.h>
#include <stdint.h>

enum {
	HISTOGRAM_SUB_BITS = 6,
	HISTOGRAM_VALUE_BITS = 37,
	HISTOGRAM_BUCKETS = (HISTOGRAM_VALUE_BITS - HISTOGRAM_SUB_BITS + 1) << HISTOGRAM_SUB_BITS,
};

struct histogram {
	_Atomic uint64_t sum; /* sum of the values, ns */
	_Atomic uint64_t min; /* 0 while count is 0 */
	_Atomic uint64_t max;
	_Atomic uint64_t buckets[HISTOGRAM_BUCKETS];
};

/* Plain copy for readers: sums of several histograms, percentiles. */
struct histogram_sum {
	uint64_t count, sum, min, max;
	uint64_t buckets[HISTOGRAM_BUCKETS];
};

/* Index of the bucket that holds value_ns. */
static inline unsigned histogram_bucket(uint64_t value_ns)
{
	unsigned shift;

	if (value_ns >> HISTOGRAM_VALUE_BITS)
		return HISTOGRAM_BUCKETS - 1;
	if (value_ns < (1U << HISTOGRAM_SUB_BITS))
		return (unsigned)value_ns;
	shift = 63U - (unsigned)__builtin_clzll(value_ns) - HISTOGRAM_SUB_BITS;
	return ((shift + 1) << HISTOGRAM_SUB_BITS) + (unsigned)(value_ns >> shift) -
	       (1U << HISTOGRAM_SUB_BITS);
}

/* Largest value that falls in bucket, ns. */
static inline uint64_t histogram_bucket_max(unsigned bucket)
{
	unsigned shift = bucket >> HISTOGRAM_SUB_BITS;
	uint64_t part = bucket & ((1U << HISTOGRAM_SUB_BITS) - 1);

	if (shift == 0)
		return part;
	return (((1ULL << HISTOGRAM_SUB_BITS) + part + 1) << (shift - 1)) - 1;
}

/* Adds the value `count` times.  Writer only. */
void histogram_add(struct histogram *h, uint64_t value_ns, unsigned count);

/* sum += h; any thread. */
void histogram_merge(struct histogram_sum *sum, const struct histogram *h);

/* to += from, of another interval. */
void histogram_sum_add(struct histogram_sum *to, const struct histogram_sum *from);

/* to -= from, for an interval between two readings; counts that would be negative become 0.  min
 * and max become the bounds of the buckets that remain. */
void histogram_subtract(struct histogram_sum *to, const struct histogram_sum *from);

/* Upper bound in ns of the bucket where the share `quantile` (0..1) of the values is reached, never
 * above max; 0 when empty. */
uint64_t histogram_quantile(const struct histogram_sum *h, double quantile);
