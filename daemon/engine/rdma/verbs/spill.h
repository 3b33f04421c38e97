/* Spill memory of a worker and device, whose contents do not matter: see conn_spill() in
 * core/remote.h. */
#pragma once
#include "device.h"

struct rdma_spill {
	uint8_t *base;
	size_t bytes;
	struct ibv_mr *mr;
};

/* The first `bytes` of the spill, for a work request. */
static inline struct ibv_sge rdma_spill_sge(const struct rdma_spill *s, size_t bytes)
{
	return (struct ibv_sge){ (uintptr_t)s->base, (uint32_t)bytes, s->mr->lkey };
}

/* Maps and registers `region-size` bytes; 0, or -errno.  rdma_spill_close() is called in any case.
 */
int rdma_spill_open(struct rdma_device *d);
void rdma_spill_close(struct rdma_device *d);
