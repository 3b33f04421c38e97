/* Engine `rdma`: references to open devices.
 *
 * The kernel does not release a device (`rdma link delete` blocks) before every process has closed
 * it.  The connection manager's library opens it once for all workers, and closes it when it scans
 * for devices and no reference is held; so each worker holds a reference to the devices that it
 * uses, and triggers a scan after it has released one. */
#include <stdlib.h>

#include "device.h"

struct ibv_context **rdma_hold(struct ibv_context *verbs)
{
	struct ibv_context **all = rdma_get_devices(NULL), **one = calloc(2, sizeof(verbs));
	unsigned kept = 0;

	for (unsigned i = 0; all && all[i]; i++) {
		if (all[i] == verbs && one)
			one[0] = verbs;
		else
			all[kept++] = all[i];
	}
	if (!all)
		return one;
	all[kept] = NULL;
	rdma_free_devices(all);
	return one;
}

void rdma_let_go(struct ibv_context **held)
{
	struct ibv_context **all;

	if (held)
		rdma_free_devices(held);
	all = rdma_get_devices(NULL); /* scans, and closes the devices that are dead */
	if (all)
		rdma_free_devices(all);
}
