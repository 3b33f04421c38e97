/* CPUs that a process may use, by its affinity and cpu.max of cgroup v2.  See cpus_usable.h. */
#include "cpus_usable.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cpus.h"
#include "text.h"
#include "util.h"

/* The limit of one group, by its cpu.max: "MICROSECONDS PERIOD" or "max PERIOD"; 0: none. */
static unsigned group_limit(const char *root, const char *group)
{
	unsigned long long quota, period;
	char path[2 * PATH_MAX], line[64];

	snprintf(path, sizeof(path), "%s%s/cpu.max", root, group);
	if (!text_file_line(path, line, sizeof(line)) ||
	    sscanf(line, "%llu %llu", &quota, &period) != 2 || period == 0)
		return 0;
	return (unsigned)MIN((quota + period - 1) / period, (unsigned long long)CPU_SETSIZE);
}

/* The path of the group in `groups` that has no controllers of cgroup v1; "" if there is none. */
static void find_group(const char *groups, char group[static PATH_MAX])
{
	if (text_find_line(groups, "0::/", group, PATH_MAX))
		memmove(group, group + 3, strlen(group + 3) + 1);
	else
		group[0] = '\0';
}

unsigned cpus_granted(const char *groups, const char *root)
{
	char group[PATH_MAX], *end;
	unsigned least, limit;

	find_group(groups, group);
	least = group_limit(root, group);
	/* A group has no more than those that it is part of. */
	while ((end = strrchr(group, '/'))) {
		*end = '\0';
		limit = group_limit(root, group);
		if (limit && (!least || limit < least))
			least = limit;
	}
	return least;
}

unsigned cpus_usable(void)
{
	unsigned granted = cpus_granted("/proc/self/cgroup", "/sys/fs/cgroup");
	cpu_set_t cpus;
	unsigned count = (unsigned)MAX(cpus_of(0, &cpus), 1);

	return granted ? MIN(granted, count) : count;
}
