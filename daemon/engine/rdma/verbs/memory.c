/* Engine `rdma`: registered memory of a device.  See memory.h. */
#include "memory.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "worker.h"

/* ---- Registration ---- */

/* Relaxed: the device may write to memory in any order, except that a completion comes after all
 * data before it.  Nothing here reads what a client writes before a completion tells of it.  The
 * library drops the flag on kernels that do not know it; a driver may refuse it. */
struct ibv_mr *rdma_register(struct rdma_device *d, void *base, size_t bytes, unsigned access)
{
	struct worker *w = d->worker;
	unsigned relaxed =
		worker_wants(w, FEATURE_relaxed_ordering) ? IBV_ACCESS_RELAXED_ORDERING : 0;
	struct ibv_mr *mr;

	/* All pages come into use at once, so huge ones take no more memory; the device needs fewer
	 * entries of its translation table.  A host may have none.  Once clients are served they
	 * are not made to wait until the kernel has made some. */
	if (!d->cq)
		madvise(base, bytes, MADV_HUGEPAGE);
	atomic_store(&w->thread.registers, true);
	mr = ibv_reg_mr(d->pd, base, bytes, access | relaxed);
	if (!mr && relaxed && errno != ENOMEM) {
		relaxed = 0;
		mr = ibv_reg_mr(d->pd, base, bytes, access);
	}
	if (mr && relaxed)
		worker_feature(w, FEATURE_relaxed_ordering);
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
