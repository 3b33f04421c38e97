/* The keys of engine `rdma`.  A build without RDMA has them as well: see no_rdma.c. */
#pragma once
#include "worker_options.h"

/* Queue pair types of transport rdma: reliable connections, datagrams, unreliable connections. */
enum qp_type { QP_RC, QP_UD, QP_UC };

struct rdma_options {
	uint64_t qp_type; /* enum qp_type */
};
extern const struct key_table rdma_key_table;

/* The struct in a worker's options. */
static inline const struct rdma_options *rdma_options(const struct worker_options *options)
{
	return options_of(options, &rdma_key_table);
}

/* engine->suits of the variant for datagrams. */
static inline bool rdma_suits_datagrams(const struct worker_options *options)
{
	return rdma_options(options)->qp_type == QP_UD;
}
