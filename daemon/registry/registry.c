/* The tables of services, engines and their variants, and stores: one line each. */
#include "registry.h"

#include <string.h>

#include "util.h"

extern const struct service service_echo, service_discard, service_chargen, service_http,
	service_iperf3, service_nbd, service_nvme, service_rping, service_fio, service_netperf,
	service_perftest, service_perftest_lat, service_sockperf;
extern const struct engine engine_rdma, engine_epoll, engine_uring_poll, engine_uring;
extern const struct engine engine_epoll_udp, engine_uring_poll_udp, engine_uring_udp, engine_xdp;
extern const struct engine engine_uring_zcrx;
extern const struct store store_file_uring, store_file_threads, store_file_blocking, store_memory,
	store_null;

/* clang-format off */
const struct service *const services[] = {
	&service_echo,
	&service_discard,
	&service_chargen,
	&service_http,
	&service_iperf3,
	&service_nbd,
	&service_netperf,
	&service_nvme,
	&service_sockperf,
	&service_rping,
	&service_fio,
	&service_perftest,
	&service_perftest_lat,
	NULL,
};

const struct engine *const engines[] = {
	&engine_rdma,
	&engine_xdp,
	&engine_epoll,
	&engine_uring_poll,
	&engine_uring,
	NULL,
};

static const struct engine *const variants[] = {
	&engine_epoll_udp,
	&engine_uring_poll_udp,
	&engine_uring_udp,
	&engine_uring_zcrx,
};

/* The best first. */
const struct store *const stores[] = {
	&store_file_uring,
	&store_file_threads,
	&store_file_blocking,
	&store_memory,
	&store_null,
	NULL,
};
/* clang-format on */

#define FIND(kind)                                                                                 \
	const struct kind *registry_##kind(const char *name)                                       \
	{                                                                                          \
		unsigned i = 0;                                                                    \
                                                                                                   \
		while (kind##s[i] && strcmp(kind##s[i]->name, name) != 0)                          \
			i++;                                                                       \
		return kind##s[i];                                                                 \
	}
FIND(service)
FIND(engine)
FIND(store)

static bool is_variant(const struct engine *variant, const struct engine *engine)
{
	return !strcmp(variant->name, engine->name);
}

const struct engine *registry_variant(const struct engine *engine,
				      const struct worker_options *options)
{
	for (size_t i = 0; i < ARRAY_SIZE(variants); i++)
		if (is_variant(variants[i], engine) && variants[i]->suits(options))
			return variants[i];
	return engine;
}

bool registry_engine_carries(const struct engine *engine, const struct transport *transport)
{
	bool carries = engine->transport == transport;

	for (size_t i = 0; i < ARRAY_SIZE(variants); i++)
		carries |= is_variant(variants[i], engine) && variants[i]->transport == transport;
	return carries;
}
