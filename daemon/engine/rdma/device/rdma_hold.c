/* Engine `rdma`: who has a device open.
 *
 * The kernel does not let go of a device (`rdma link delete` waits) before every process has closed
 * it.  The connection manager's library has opened it for all workers, and closes it when nobody
 * holds it and it looks for devices again; so every worker holds what it uses, and looks when it
 * has let go. */
#include <stdlib.h>

#include "rdma_device.h"

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
	all = rdma_get_devices(NULL); /* finds out which are dead, and closes them */
	if (all)
		rdma_free_devices(all);
}
