/* This host: its CPU time, from /proc/stat (proc(5)), and what it is. */
#pragma once
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "measure.h"

/* Since boot; all 0: it cannot be read. */
void host_cpu(struct measure_machine *ret);

/* The difference of two readings. */
struct measure_machine host_cpu_delta(const struct measure_machine *before,
				      const struct measure_machine *after);

/* Where the workers of a listener may run: the threads of the daemon `pid` that are named after it.
 */
void host_listener_cpus(pid_t pid, const char *listener, cpu_set_t *ret_cpus);

/* "0-3,8"; false: the set is empty, or has no room in `bytes`. */
bool host_cpus_text(const cpu_set_t *cpus, char *text, size_t bytes);

/* A new reference: kernel, machine, cpu (its model), cpus (how many are online), memory_bytes,
 * governor (of cpufreq), mitigations ({ name: state } of whatever affects this CPU), hypervisor
 * (true: it is a virtual machine).  What cannot be read is left out. */
json_t *host_describe(void);
