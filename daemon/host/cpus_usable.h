/* How many CPUs there are to use. */
#pragma once

/* How many CPUs the calling thread may use: those it may run on, but no more than the time that
 * its control groups grant (cpu.max, cgroup v2), rounded up.  At least 1. */
unsigned cpus_usable(void);

/* The CPUs' worth of time that control groups grant, rounded up: `groups` is as
 * /proc/self/cgroup, `root` where their file system is mounted.  0: no limit, or unknown. */
unsigned cpus_granted(const char *groups, const char *root);
