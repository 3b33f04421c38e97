/* The number of CPUs that a process may use, by its affinity and its control groups. */
#pragma once

/* The number of CPUs in the affinity mask of the calling thread, limited by the CPU time that its
 * control groups grant (cpu.max of cgroup v2), rounded up.  At least 1. */
unsigned cpus_usable(void);

/* The CPUs' worth of time that control groups grant, rounded up: `groups` is as
 * /proc/self/cgroup, `root` where their file system is mounted.  0: no limit, or unknown. */
unsigned cpus_granted(const char *groups, const char *root);
