/* CPU time of this host, from /proc/stat (proc(5)). */
#pragma once
#include <sched.h>
#include <stdint.h>
#include <sys/types.h>

#include "measure.h"

/* Since boot; all 0: it cannot be read. */
void host_cpu(struct measure_machine *ret);

/* What passed between two readings. */
struct measure_machine host_cpu_delta(const struct measure_machine *before,
				      const struct measure_machine *after);

/* Where the workers of a listener may run: the threads of the daemon `pid` that are named after it.
 */
void host_listener_cpus(pid_t pid, const char *listener, cpu_set_t *ret_cpus);
