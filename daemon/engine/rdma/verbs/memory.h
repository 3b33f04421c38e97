/* Registered memory of a device, which clients may read and write by themselves.  Worker's thread
 * only. */
#pragma once
#include "device.h"

/* ---- Registration ---- */

/* Registers whole pages with the device, by which they are pinned; huge ones where the kernel has
 * them.  NULL: errno says why not. */
struct ibv_mr *rdma_register(struct rdma_device *d, void *base, size_t bytes, unsigned access);
/* NULL: does nothing. */
void rdma_unregister(struct rdma_device *d, struct ibv_mr *mr);

/* ---- Memory that clients may read and write by themselves ---- */

struct rdma_region {
	struct rdma_region *next; /* list of the connection whose client may access it */
	uint8_t *base;
	size_t bytes;
	struct ibv_mr *mr;
};

/* The first `bytes` of the region, for a work request. */
static inline struct ibv_sge rdma_region_sge(const struct rdma_region *region, size_t bytes)
{
	return (struct ibv_sge){ (uintptr_t)region->base, (uint32_t)bytes, region->mr->lkey };
}

/* Maps and registers it, zeroed; 0, or -errno. */
int rdma_region_new(struct rdma_device *d, size_t bytes, struct rdma_region **ret_region);
/* NULL: does nothing. */
void rdma_region_free(struct rdma_device *d, struct rdma_region *region);
