/* Engine `rdma` in a build without its libraries: configurations stay valid, and `optional`
 * listeners report why they are not served. */
#include <errno.h>

#include "engine.h"
#include "rdma_keys.h"

#define NO_RDMA "this build is without RDMA; build it without RDMA=no"

static int no_rdma_init(struct worker *w, struct reason *reason)
{
	(void)w;
	return reason_set(reason, -ENOSYS, NO_RDMA);
}

#define NO_RDMA_ENGINE                                                                             \
	.name = "rdma", .transport = &transport_rdma, .absent = NO_RDMA, .init = no_rdma_init
const struct engine engine_rdma = { .keys = &rdma_key_table, NO_RDMA_ENGINE };
const struct engine engine_rdma_datagrams = { .suits = rdma_suits_datagrams,
					      .forgets = true,
					      NO_RDMA_ENGINE };
