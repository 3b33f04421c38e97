/* base/tally.c: counts by address. */
#include "tally.h"
#include "unit.h"

enum { MANY = 2 * TALLY_BUCKETS };

static struct tally table, other;

static struct in6_addr address(unsigned i)
{
	struct in6_addr a = { .s6_addr = { 0x20, 0x01 } };

	memcpy(&a.s6_addr[12], &i, sizeof(i));
	return a;
}

TEST(each_address_is_counted_alone)
{
	static struct tally_entry *entries[MANY];
	struct in6_addr a;

	assert_int_equal(tally_init(&table), 0);
	for (unsigned round = 1; round <= 2; round++)
		for (unsigned i = 0; i < MANY; i++) {
			a = address(i);
			entries[i] = tally_add(&table, &a);
			assert_non_null(entries[i]);
			assert_int_equal(entries[i]->count, round);
			assert_memory_equal(&entries[i]->address, &a, sizeof(a));
		}
	for (unsigned i = 0; i < MANY; i++) {
		tally_drop(&table, entries[i]);
		assert_int_equal(entries[i]->count, 1);
		tally_drop(&table, entries[i]);
	}
	for (unsigned i = 0; i < TALLY_BUCKETS; i++)
		assert_null(table.buckets[i]);
	tally_fini(&table);
}

/* So no client can choose addresses that share a bucket. */
TEST(buckets_depend_on_a_secret)
{
	unsigned same = 0;

	assert_int_equal(tally_init(&table), 0);
	assert_int_equal(tally_init(&other), 0);
	for (unsigned i = 0; i < 64; i++) {
		struct in6_addr a = address(i);

		assert_non_null(tally_add(&table, &a));
		assert_non_null(tally_add(&other, &a));
	}
	for (unsigned i = 0; i < TALLY_BUCKETS; i++)
		same += table.buckets[i] && other.buckets[i];
	assert_in_range(same, 0, 32);
	tally_fini(&table);
	tally_fini(&other);
}
