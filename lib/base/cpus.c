/* See cpus.h. */
#include "cpus.h"

#include <errno.h>

enum { HOST_CPUS_MAX = 16 * CPU_SETSIZE /* twice as many as Linux can be built for */ };

/* sched_getaffinity() fails with EINVAL when the set is smaller than the kernel's own CPU mask, so
 * it gets the largest one. */
int cpus_of(pid_t thread, cpu_set_t *ret_cpus)
{
	cpu_set_t all[HOST_CPUS_MAX / CPU_SETSIZE];

	CPU_ZERO(ret_cpus);
	if (sched_getaffinity(thread, sizeof(all), all) < 0)
		return -errno;
	*ret_cpus = all[0];
	return CPU_COUNT_S(sizeof(all), all);
}
