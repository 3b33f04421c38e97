/* The table of engines: one line each, and its variant for datagrams in the second table. */
#include <string.h>

#include "registry.h"
#include "util.h"

extern const struct engine engine_rdma, engine_no_rdma, engine_epoll, engine_uring_poll,
	engine_uring;
extern const struct engine engine_epoll_edge, engine_epoll_oneshot, engine_epoll_per_operation;
extern const struct engine engine_rdma_datagrams, engine_epoll_udp, engine_uring_poll_udp,
	engine_uring_udp;

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

static const struct {
	const struct engine *engine, *datagrams;
} variants[] = {
#ifdef NB_RDMA
	{ &engine_rdma, &engine_rdma_datagrams },
#endif
	{ &engine_epoll, &engine_epoll_udp },
	{ &engine_uring_poll, &engine_uring_poll_udp },
	{ &engine_uring, &engine_uring_udp },
};

static const struct engine *const epoll_modes[EPOLL_MODES] = {
	[EPOLL_LEVEL] = &engine_epoll,
	[EPOLL_EDGE] = &engine_epoll_edge,
	[EPOLL_ONESHOT] = &engine_epoll_oneshot,
	[EPOLL_PER_OPERATION] = &engine_epoll_per_operation,
};
/* clang-format on */

const struct engine *engine_find(const char *name)
{
	for (unsigned i = 0; engines[i]; i++)
		if (!strcmp(engines[i]->name, name))
			return engines[i];
	return NULL;
}

const struct engine *engine_datagrams(const struct engine *engine)
{
	for (size_t i = 0; i < ARRAY_SIZE(variants); i++)
		if (variants[i].engine == engine)
			return variants[i].datagrams;
	return NULL;
}

const struct engine *engine_of(const struct engine *engine, const struct worker_options *options)
{
	const struct engine *datagrams =
		options_datagrams(options) ? engine_datagrams(engine) : NULL;

	if (datagrams)
		return datagrams;
	return engine == &engine_epoll ? epoll_modes[options->epoll_mode] : engine;
}

bool engine_carries(const struct engine *engine, const struct transport *transport)
{
	const struct engine *datagrams = engine_datagrams(engine);

	return engine->transport == transport || (datagrams && datagrams->transport == transport);
}
