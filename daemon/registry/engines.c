/* The table of engines: one line each. */
#include "registry.h"

#include <string.h>

extern const struct engine engine_rdma, engine_no_rdma, engine_epoll, engine_uring_poll,
	engine_uring;

/* clang-format off */
const struct engine *const engines[] = {
#ifdef NB_RDMA
	&engine_rdma,
#else
	&engine_no_rdma,
#endif
	&engine_epoll,
	&engine_uring_poll,
	&engine_uring,
	NULL,
};
/* clang-format on */

const struct engine *engine_find(const char *name)
{
	for (unsigned i = 0; engines[i]; i++)
		if (!strcmp(engines[i]->name, name))
			return engines[i];
	return NULL;
}
