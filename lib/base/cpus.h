/* Where a thread may run, and which CPUs share a core or a NUMA node, by /sys. */
#pragma once
#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

/* The CPUs that a thread may run on, 0: the calling one.  How many, or -errno, and *ret_cpus is
 * empty.  Those from CPU_SETSIZE (1,024) on are counted, but are not in the set. */
int cpus_of(pid_t thread, cpu_set_t *ret_cpus);

/* The `candidates` that are other hardware threads of the cores of `cpus`; empty
 * also if that is not known. */
void cpus_siblings(const cpu_set_t *cpus, const cpu_set_t *candidates, cpu_set_t *ret_siblings);

/* Are all of `b` on other NUMA nodes than `a`?  False if that is not known. */
bool cpus_other_nodes(const cpu_set_t *a, const cpu_set_t *b);

/* The first CPU that we may use, and the first of another core, on the same node if there is one.
 * False: there are none, and *ret_other is -1. */
bool cpus_apart(int *ret_first, int *ret_other);
