/* Engine `rdma`: registered memory of a device.  See memory.h. */
#include "memory.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "bufq.h"
#include "worker.h"

/* ---- Lent chunks ---- */

/* Each gets half of what the earlier ones left, so that any number of devices and ports never takes
 * all chunks for receives. */
int rdma_receives_open(struct rdma_receives *receives, struct worker *w, unsigned most)
{
	struct rdma *e = w->engine_state;
	const struct pool *p = &w->pool;
	unsigned room = p->chunk_count - p->keep;

	receives->is = calloc(p->chunk_count, sizeof(*receives->is));
	if (!receives->is)
		return -ENOMEM;
	room -= MIN(room, e->posted_max);
	receives->max = MIN(MAX(room / 2, 1U), most);
	e->posted_max += receives->max;
	return 0;
}

void rdma_receives_close(struct rdma_receives *receives, struct worker *w)
{
	struct rdma *e = w->engine_state;

	if (!receives->is)
		return;
	rdma_receives_forget(receives, &w->pool);
	free(receives->is);
	e->posted_max -= receives->max;
	*receives = (struct rdma_receives){ 0 };
}

void rdma_receives_forget(struct rdma_receives *receives, struct pool *p)
{
	for (uint32_t i = 0; receives->is && i < p->chunk_count; i++)
		if (receives->is[i])
			rdma_receives_back(receives, p, &p->chunks[i]);
}

bool rdma_receives_back(struct rdma_receives *receives, struct pool *p, struct chunk *k)
{
	if (!receives->is[k->id])
		return false;
	receives->is[k->id] = false;
	receives->count--;
	chunk_put(p, k);
	return true;
}

unsigned rdma_receives_chain(struct rdma_receives *receives, struct worker *w,
			     const struct rdma_device *d, struct rdma_chain *chain,
			     enum rdma_tag tag, unsigned most)
{
	struct pool *p = &w->pool;
	unsigned n = 0;

	for (; n < MIN(most, (unsigned)RDMA_CHAIN_MAX) && p->free_count > p->keep; n++) {
		struct chunk *k = chunk_get(p);

		receives->is[k->id] = true;
		receives->count++;
		chain->sges[n] = (struct ibv_sge){ (uintptr_t)k->base, p->chunk_size, d->mr->lkey };
		chain->requests[n] = (struct ibv_recv_wr){ .wr_id = (uintptr_t)k | tag,
							   .next = &chain->requests[n + 1],
							   .sg_list = &chain->sges[n],
							   .num_sge = 1 };
	}
	if (n == 0)
		return 0;
	chain->requests[n - 1].next = NULL;
	stat_add(w->stats.wr_recv, n);
	stat_add(w->stats.doorbells, 1);
	return n;
}

static struct chunk *rdma_receives_chunk(const struct ibv_recv_wr *wr)
{
	/* As in poll_device() of device.c.  NOLINTNEXTLINE(*-no-int-to-ptr) */
	return (void *)(uintptr_t)(wr->wr_id & ~(uint64_t)RDMA_TAG_MASK);
}

void rdma_receives_not_posted(struct rdma_receives *receives, struct worker *w,
			      const struct ibv_recv_wr *bad)
{
	for (; bad; bad = bad->next) {
		rdma_receives_back(receives, &w->pool, rdma_receives_chunk(bad));
		stat_add(w->stats.wr_recv, UINT64_C(-1));
	}
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
