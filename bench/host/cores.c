/* See cores.h. */
#include "cores.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpus.h"
#include "parse.h"
#include "text.h"

void cores_siblings(const cpu_set_t *cpus, const cpu_set_t *candidates, cpu_set_t *ret_siblings)
{
	char path[80], list[256];
	cpu_set_t listed;

	CPU_ZERO(ret_siblings);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET((size_t)cpu, cpus))
			continue;
		snprintf(path, sizeof(path),
			 "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
		if (text_file_line(path, list, sizeof(list)) && parse_cpus(list, &listed) == 0)
			CPU_OR(ret_siblings, ret_siblings, &listed);
	}
	for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, cpus) || !CPU_ISSET(cpu, candidates))
			CPU_CLR(cpu, ret_siblings);
}

/* ---- Nodes ---- */

/* The NUMA node of a CPU; -1: unknown. */
static int node_of(unsigned cpu)
{
	char pattern[80];
	int node = -1;
	glob_t found;

	snprintf(pattern, sizeof(pattern), "/sys/devices/system/cpu/cpu%u/node[0-9]*", cpu);
	if (glob(pattern, 0, NULL, &found) == 0) {
		node = atoi(strrchr(found.gl_pathv[0], '/') + sizeof("node"));
		globfree(&found);
	}
	return node;
}

bool cores_other_nodes(const cpu_set_t *a, const cpu_set_t *b)
{
	for (unsigned i = 0; i < CPU_SETSIZE; i++)
		for (unsigned j = 0; CPU_ISSET(i, a) && j < CPU_SETSIZE; j++)
			if (CPU_ISSET(j, b) && (node_of(i) < 0 || node_of(i) == node_of(j)))
				return false;
	return CPU_COUNT(a) > 0 && CPU_COUNT(b) > 0;
}

/* ---- A pair of CPUs ---- */

bool cores_apart(int *ret_first, int *ret_other)
{
	cpu_set_t ours, first, siblings;
	int other = -1, start = -1;

	if (cpus_of(0, &ours) < 0)
		return false;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET((size_t)cpu, &ours))
			continue;
		if (start < 0) {
			start = cpu;
			CPU_ZERO(&first);
			CPU_SET((size_t)cpu, &first);
			cores_siblings(&first, &ours, &siblings);
		} else if (!CPU_ISSET((size_t)cpu, &siblings) &&
			   (other < 0 || (node_of((unsigned)other) != node_of((unsigned)start) &&
					  node_of((unsigned)cpu) == node_of((unsigned)start)))) {
			other = cpu;
		}
	}
	*ret_first = start;
	*ret_other = other;
	return other >= 0;
}
