/* base/histogram.c: the promised error, the promised range, and arithmetic on whole histograms. */
#include <math.h>

#include "histogram.h"
#include "unit.h"
#include "util.h"

static const uint64_t largest_kept = (UINT64_C(1) << HISTOGRAM_VALUE_BITS) - 1;

static uint64_t random64(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	return *seed ^= *seed << 17;
}

/* Evenly over the decades from 100 ns to 100 s. */
static uint64_t random_latency(uint64_t *seed)
{
	double decades = (double)(random64(seed) % 9000001) / 1e6;

	return (uint64_t)(100 * pow(10, decades));
}

TEST(buckets_are_monotonic_and_without_a_gap)
{
	assert_int_equal(histogram_bucket(0), 0);
	assert_int_equal(histogram_bucket_max(0), 0);
	for (unsigned i = 1; i < HISTOGRAM_BUCKETS; i++) {
		assert_true(histogram_bucket_max(i) > histogram_bucket_max(i - 1));
		assert_int_equal(histogram_bucket(histogram_bucket_max(i - 1) + 1), i);
	}
}

TEST(bucket_max_is_the_inverse_of_bucket)
{
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		assert_int_equal(histogram_bucket(histogram_bucket_max(i)), i);
	assert_int_equal(histogram_bucket_max(HISTOGRAM_BUCKETS - 1), largest_kept);
}

TEST(a_bucket_overstates_by_at_most_two_percent_from_100_ns_to_100_s)
{
	uint64_t seed = 88172645463325252U;

	for (unsigned i = 0; i < 1000000; i++) {
		uint64_t value = random_latency(&seed);
		uint64_t max = histogram_bucket_max(histogram_bucket(value));

		assert_true(max >= value);
		assert_true((double)(max - value) <= 0.02 * (double)value);
	}
}

TEST(values_beyond_the_range_count_in_the_last_bucket)
{
	assert_int_equal(histogram_bucket(largest_kept), HISTOGRAM_BUCKETS - 1);
	assert_int_equal(histogram_bucket(largest_kept + 1), HISTOGRAM_BUCKETS - 1);
	assert_int_equal(histogram_bucket(UINT64_MAX), HISTOGRAM_BUCKETS - 1);
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

TEST(quantiles_agree_with_a_sorted_array)
{
	static const double quantiles[] = { 0, 0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 0.9999, 1 };
	enum { COUNT = 50000 };
	uint64_t *values = malloc(COUNT * sizeof(*values)), seed = 42, sum = 0;
	static struct histogram h;
	static struct histogram_sum s;

	memset(&h, 0, sizeof(h));
	memset(&s, 0, sizeof(s));
	for (unsigned i = 0; i < COUNT; i++) {
		values[i] = random_latency(&seed);
		sum += values[i];
		histogram_add(&h, values[i], 1);
	}
	qsort(values, COUNT, sizeof(*values), compare_u64);
	histogram_merge(&s, &h);
	assert_int_equal(s.count, COUNT);
	assert_int_equal(s.sum, sum);
	assert_int_equal(s.min, values[0]);
	assert_int_equal(s.max, values[COUNT - 1]);
	for (unsigned i = 0; i < ARRAY_SIZE(quantiles); i++) {
		size_t rank = (size_t)ceil(quantiles[i] * COUNT);
		uint64_t exact = values[rank ? rank - 1 : 0];
		uint64_t got = histogram_quantile(&s, quantiles[i]);

		assert_true(got >= exact);
		assert_true((double)(got - exact) <= 0.02 * (double)exact);
		assert_true(got <= s.max);
	}
	free(values);
}

TEST(an_empty_histogram_is_all_zero)
{
	static const struct histogram h;
	CLEANUP(free_p) struct histogram_sum *s = calloc(1, sizeof(*s));

	histogram_merge(s, &h);
	assert_int_equal(s->count, 0);
	assert_int_equal(s->min, 0);
	assert_int_equal(s->max, 0);
	assert_int_equal(histogram_quantile(s, 0.5), 0);
}

TEST(one_value_is_every_quantile)
{
	static const uint64_t values[] = { 0, 1, 63, 64, 1234567, 1000000000000 };
	CLEANUP(free_p) struct histogram *h = calloc(1, sizeof(*h));
	CLEANUP(free_p) struct histogram_sum *s = calloc(1, sizeof(*s));

	for (unsigned i = 0; i < ARRAY_SIZE(values); i++) {
		memset(h, 0, sizeof(*h));
		memset(s, 0, sizeof(*s));
		histogram_add(h, values[i], 1);
		histogram_merge(s, h);
		assert_int_equal(s->count, 1);
		assert_int_equal(s->max, values[i]);
		for (unsigned quarter = 0; quarter <= 4; quarter++)
			assert_int_equal(histogram_quantile(s, quarter / 4.0),
					 MIN(values[i], largest_kept));
	}
}

TEST(merging_is_adding_every_value)
{
	CLEANUP(free_p)
	struct histogram *parts = calloc(3, sizeof(*parts)), *whole = calloc(1, sizeof(*whole));
	CLEANUP(free_p) struct histogram_sum *sum = calloc(2, sizeof(*sum));
	uint64_t seed = 7;

	for (unsigned i = 0; i < 3000; i++) {
		uint64_t value = random_latency(&seed);

		histogram_add(&parts[i % 3], value, 1);
		histogram_add(whole, value, 1);
	}
	for (unsigned i = 0; i < 3; i++)
		histogram_merge(&sum[0], &parts[i]);
	histogram_merge(&sum[1], whole);
	assert_memory_equal(&sum[0], &sum[1], sizeof(sum[0]));
}

TEST(subtracting_leaves_the_interval)
{
	CLEANUP(free_p) struct histogram *h = calloc(1, sizeof(*h));
	CLEANUP(free_p) struct histogram_sum *sum = calloc(2, sizeof(*sum));

	histogram_add(h, 200, 1);
	histogram_add(h, 5000000, 1);
	histogram_merge(&sum[0], h);
	for (unsigned i = 0; i < 10; i++)
		histogram_add(h, 1000 + i, 1);
	histogram_merge(&sum[1], h);
	histogram_subtract(&sum[1], &sum[0]);
	assert_int_equal(sum[1].count, 10);
	assert_int_equal(sum[1].sum, 10 * 1000 + 45);
	assert_int_equal(sum[1].max, histogram_bucket_max(histogram_bucket(1009)));
	assert_in_range(sum[1].min, 1000, histogram_bucket_max(histogram_bucket(1000)));
	assert_in_range(histogram_quantile(&sum[1], 0.5), 1000, 1020);
}

TEST(subtracting_a_later_reading_gives_nothing_not_less)
{
	CLEANUP(free_p) struct histogram *h = calloc(1, sizeof(*h));
	CLEANUP(free_p) struct histogram_sum *sum = calloc(2, sizeof(*sum));

	histogram_add(h, 1000, 1);
	histogram_merge(&sum[0], h);
	histogram_add(h, 1000, 1);
	histogram_merge(&sum[1], h);
	histogram_subtract(&sum[0], &sum[1]);
	assert_int_equal(sum[0].count, 0);
	assert_int_equal(sum[0].sum, 0);
	assert_int_equal(sum[0].min, 0);
	assert_int_equal(sum[0].max, 0);
}
