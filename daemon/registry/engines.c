/* The table of engines and that of their variants: one line each. */
#include <string.h>

#include "registry.h"
#include "util.h"

extern const struct engine engine_rdma, engine_epoll, engine_uring_poll, engine_uring;
extern const struct engine engine_rdma_datagrams, engine_epoll_udp, engine_uring_poll_udp,
	engine_uring_udp;
extern const struct engine engine_uring_zcrx;

/* clang-format off */
const struct engine *const engines[] = {
	&engine_rdma,
	&engine_epoll,
	&engine_uring_poll,
	&engine_uring,
	NULL,
};

static const struct engine *const variants[] = {
	&engine_rdma_datagrams,
	&engine_epoll_udp,
	&engine_uring_poll_udp,
	&engine_uring_udp,
	&engine_uring_zcrx,
};
/* clang-format on */

static bool is_variant(const struct engine *variant, const struct engine *engine)
{
	return !strcmp(variant->name, engine->name);
}

const struct engine *engine_find(const char *name)
{
	for (unsigned i = 0; engines[i]; i++)
		if (!strcmp(engines[i]->name, name))
			return engines[i];
	return NULL;
}

const struct engine *engine_of(const struct engine *engine, const struct worker_options *options)
{
	for (size_t i = 0; i < ARRAY_SIZE(variants); i++)
		if (is_variant(variants[i], engine) && variants[i]->suits(options))
			return variants[i];
	return engine;
}

bool engine_carries(const struct engine *engine, const struct transport *transport)
{
	bool carries = engine->transport == transport;

	for (size_t i = 0; i < ARRAY_SIZE(variants); i++)
		carries |= is_variant(variants[i], engine) && variants[i]->transport == transport;
	return carries;
}
