/* Preloaded into the daemon by tests: a CPU with counters, made of software events of the kernel.
 * Cycles and instructions are nanoseconds of CPU time, misses are page faults and migrations. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <sys/syscall.h>

long syscall(long number, ...)
{
	static const __u64 events[] = {
		[PERF_COUNT_HW_CPU_CYCLES] = PERF_COUNT_SW_TASK_CLOCK,
		[PERF_COUNT_HW_INSTRUCTIONS] = PERF_COUNT_SW_TASK_CLOCK,
		[PERF_COUNT_HW_CACHE_MISSES] = PERF_COUNT_SW_PAGE_FAULTS,
		[PERF_COUNT_HW_BRANCH_MISSES] = PERF_COUNT_SW_CPU_MIGRATIONS,
	};
	long (*next)(long, ...) = dlsym(RTLD_NEXT, "syscall");
	va_list arguments;
	long a[6];

	va_start(arguments, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(arguments, long);
	va_end(arguments);
	if (number == SYS_perf_event_open) {
		struct perf_event_attr *attr = (struct perf_event_attr *)a[0];

		if (attr->type == PERF_TYPE_HARDWARE)
			attr->config = events[attr->config];
		attr->type = PERF_TYPE_SOFTWARE;
	}
	return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
