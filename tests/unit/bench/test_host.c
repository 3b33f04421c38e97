/* bench/host/host.c: the softirqs of the listener's CPUs are a part of the machine's. */
#include <unistd.h>

#include "host.h"
#include "measure_file.h"
#include "unit.h"
#include "util.h"

TEST(softirqs_of_all_cpus_are_the_machine_s)
{
	struct measure_machine none, all, each, later;
	cpu_set_t set;
	uint64_t sum = 0, ticks;

	CPU_ZERO(&set);
	host_cpu(&set, &none);
	assert_int_equal(none.served_softirq_ns, 0);
	/* A line of a CPU is rounded down to a clock tick, and so is that of all. */
	ticks = (none.cpus + 1) * 2 * (NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK));
	for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		host_cpu(&set, &each);
		sum += each.served_softirq_ns;
	}
	memset(&set, 0xff, sizeof(set));
	host_cpu(&set, &all);
	host_cpu(&set, &later);
	assert_in_range(all.served_softirq_ns, all.softirq_ns - MIN(all.softirq_ns, ticks),
			later.softirq_ns + ticks);
	assert_in_range(sum, none.softirq_ns - MIN(none.softirq_ns, ticks),
			later.softirq_ns + ticks);
	assert_true(all.softirq_ns > 0);
}

TEST(its_difference_is_that_of_two_readings)
{
	const struct measure_machine before = { .served_softirq_ns = 5, .cpus = 1 };
	const struct measure_machine after = { .served_softirq_ns = 12, .cpus = 1 };

	assert_int_equal(measure_machine_delta(&before, &after).served_softirq_ns, 7);
}
