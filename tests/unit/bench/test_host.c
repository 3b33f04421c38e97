/* bench/rows/measure_file.c: what a machine did between two readings. */
#include "measure_file.h"
#include "unit.h"

TEST(its_difference_is_that_of_two_readings)
{
	const struct measure_machine before = { .softirq_ns = 5, .cpus = 1 };
	const struct measure_machine after = { .softirq_ns = 12, .cpus = 1 };

	assert_int_equal(measure_machine_delta(&before, &after).softirq_ns, 7);
}
