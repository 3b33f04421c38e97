/* Where a thread may run. */
#pragma once
#include <sched.h>
#include <sys/types.h>

/* The CPUs that a thread may run on, 0: the calling one.  How many, or -errno, and *ret_cpus is
 * empty.  Those from CPU_SETSIZE (1,024) on are counted, but are not in the set. */
int cpus_of(pid_t thread, cpu_set_t *ret_cpus);
