/* Engine `rdma`: registered memory of a device.  See memory.h. */
#include "memory.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "worker.h"

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
		region->mr = ibv_reg_mr(d->pd, region->base, bytes,
					IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
						IBV_ACCESS_REMOTE_WRITE);
	if (!region->mr) {
		rc = errno ? -errno : -ENOMEM;
		rdma_region_free(d, region);
		return rc;
	}
	stat_add(d->worker->stats.registered_bytes, bytes);
	*ret_region = region;
	return 0;
}

void rdma_region_free(struct rdma_device *d, struct rdma_region *region)
{
	if (!region)
		return;
	if (region->mr) {
		stat_add(d->worker->stats.registered_bytes, -(uint64_t)region->bytes);
		ibv_dereg_mr(region->mr);
	}
	if (region->base != MAP_FAILED)
		munmap(region->base, region->bytes);
	free(region);
}
