/* Log-linear histogram: counting, merging, percentiles.  See histogram.h. */
#include "histogram.h"

#include <math.h>

#define LOAD(p)     atomic_load_explicit(p, memory_order_relaxed)
#define STORE(p, v) atomic_store_explicit(p, v, memory_order_relaxed)

void histogram_add(struct histogram *h, uint64_t value_ns, unsigned count)
{
	_Atomic uint64_t *bucket = &h->buckets[histogram_bucket(value_ns)];
	uint64_t min = LOAD(&h->min);

	STORE(bucket, LOAD(bucket) + count);
	STORE(&h->sum, LOAD(&h->sum) + value_ns * count);
	if (value_ns > LOAD(&h->max))
		STORE(&h->max, value_ns);
	if (value_ns < min || min == 0)
		STORE(&h->min, value_ns ? value_ns : 1);
}

void histogram_merge(struct histogram_sum *sum, const struct histogram *h)
{
	uint64_t min = LOAD(&h->min), max = LOAD(&h->max);

	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		uint64_t n = LOAD(&h->buckets[i]);

		sum->buckets[i] += n;
		sum->count += n;
	}
	sum->sum += LOAD(&h->sum);
	if (min && (min < sum->min || sum->min == 0))
		sum->min = min;
	if (max > sum->max)
		sum->max = max;
}

void histogram_sum_add(struct histogram_sum *to, const struct histogram_sum *from)
{
	if (from->count == 0) /* it has 2048 buckets */
		return;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		to->buckets[i] += from->buckets[i];
	to->count += from->count;
	to->sum += from->sum;
	if (from->min && (to->min == 0 || from->min < to->min))
		to->min = from->min;
	if (from->max > to->max)
		to->max = from->max;
}

void histogram_subtract(struct histogram_sum *to, const struct histogram_sum *from)
{
	to->count = to->min = to->max = 0;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		uint64_t *n = &to->buckets[i];

		*n -= *n < from->buckets[i] ? *n : from->buckets[i];
		if (*n == 0)
			continue;
		to->count += *n;
		to->max = histogram_bucket_max(i);
		if (to->min == 0)
			to->min = to->max;
	}
	to->sum -= to->sum < from->sum ? to->sum : from->sum;
}

uint64_t histogram_quantile(const struct histogram_sum *h, double quantile)
{
	uint64_t rank = (uint64_t)ceil(quantile * (double)h->count), seen = 0;

	if (h->count == 0)
		return 0;
	if (rank < 1)
		rank = 1;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		seen += h->buckets[i];
		if (seen >= rank)
			return histogram_bucket_max(i) < h->max ? histogram_bucket_max(i) : h->max;
	}
	return h->max;
}
