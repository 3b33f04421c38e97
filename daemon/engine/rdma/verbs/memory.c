/* Engine `rdma`: registered memory of a device.  See memory.h. */
#include "memory.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "worker.h"

/* ---- Registration ---- */

struct ibv_mr *rdma_register(struct rdma_device *d, void *base, size_t bytes, unsigned access)
{
	struct worker *w = d->worker;
	struct ibv_mr *mr;

	atomic_store(&w->thread.registers, true);
	mr = ibv_reg_mr(d->pd, base, bytes, access);
	atomic_store(&w->thread.registers, false);
	stat_add(w->stats.registered_bytes, mr ? bytes : 0);
	return mr;
}

void rdma_unregister(struct rdma_device *d, struct ibv_mr *mr)
{
	if (!mr)
		return;
	stat_add(d->worker->stats.registered_bytes, -(uint64_t)mr->length);
	ibv_dereg_mr(mr);
}

/* ---- Regions ---- */

int rdma_region_new(struct rdma_device *d, size_t bytes, struct rdma_region **ret_region)
{
	struct rdma_region *region = calloc(1, sizeof(*region));
	int rc;

	if (!region)
		return -ENOMEM;
	region->bytes = bytes;
	region->base =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (region->base != MAP_FAILED)
		region->mr = rdma_register(d, region->base, bytes,
					   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
						   IBV_ACCESS_REMOTE_WRITE);
	if (!region->mr) {
		rc = errno ? -errno : -ENOMEM;
		rdma_region_free(d, region);
		return rc;
	}
	*ret_region = region;
	return 0;
}

void rdma_region_free(struct rdma_device *d, struct rdma_region *region)
{
	if (!region)
		return;
	rdma_unregister(d, region->mr);
	if (region->base != MAP_FAILED)
		munmap(region->base, region->bytes);
	free(region);
}
