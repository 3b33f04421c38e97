/* Which CPUs share a core or a NUMA node, by /sys. */
#pragma once
#include <sched.h>
#include <stdbool.h>

/* The `candidates` that are other hardware threads of the cores of `cpus`; empty
 * also if that is not known. */
void cores_siblings(const cpu_set_t *cpus, const cpu_set_t *candidates, cpu_set_t *ret_siblings);

/* Are all of `b` on other NUMA nodes than `a`?  False if that is not known. */
bool cores_other_nodes(const cpu_set_t *a, const cpu_set_t *b);

/* The first CPU that we may use, and the first of another core, on the same node if there is one.
 * False: there are none, and *ret_other is -1. */
bool cores_apart(int *ret_first, int *ret_other);
