/* Engine `rdma` in a build without its libraries: configurations stay valid, and `optional`
 * listeners report why they are not served. */
#include <errno.h>

#include "engine.h"

#define NO_RDMA "this build is without RDMA; build it without RDMA=no"

static int no_rdma_init(struct worker *w, struct reason *reason)
{
	(void)w;
	return reason_set(reason, -ENOSYS, NO_RDMA);
}

extern const struct engine engine_rdma;

const struct engine engine_rdma = {
	.name = "rdma", .transport = &transport_rdma, .absent = NO_RDMA, .init = no_rdma_init
};
