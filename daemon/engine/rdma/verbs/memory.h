/* Registered memory of a device: chunks of the pool that are lent to it, and memory that clients
 * reach.  Worker's thread only. */
#pragma once
#include "device.h"

struct chunk;
struct pool;

/* ---- Chunks lent to a device that may complete in any order: for datagrams ---- */

enum { RDMA_CHAIN_MAX = 64 }; /* receives posted by one call, once this many are missing */

struct rdma_receives {
	bool *is; /* by chunk id: is the chunk lent?  NULL: closed */
	unsigned count, max;
};

/* Receive requests that one call posts. */
struct rdma_chain {
	struct ibv_recv_wr requests[RDMA_CHAIN_MAX];
	struct ibv_sge sges[RDMA_CHAIN_MAX];
};

/* Allows up to `most` chunks, or this device's share of the pool if that is less,
 * to be lent.  0 or -ENOMEM. */
int rdma_receives_open(struct rdma_receives *receives, struct worker *w, unsigned most);
/* To be called when the device no longer uses any of them.  Does nothing if closed already. */
void rdma_receives_close(struct rdma_receives *receives, struct worker *w);
/* Takes back a chunk that the device no longer uses.  False: it was taken back before. */
bool rdma_receives_back(struct rdma_receives *receives, struct pool *p, struct chunk *k);
/* Takes back all chunks; the device no longer uses them. */
void rdma_receives_forget(struct rdma_receives *receives, struct pool *p);
/* Fills the chain with up to `most` chunks as far as the pool allows.  Returns their number; they
 * count as lent. */
unsigned rdma_receives_chain(struct rdma_receives *receives, struct worker *w,
			     const struct rdma_device *d, struct rdma_chain *chain,
			     enum rdma_tag tag, unsigned most);
/* ibv_post_* did not accept `bad` and the requests after it: takes their chunks back. */
void rdma_receives_not_posted(struct rdma_receives *receives, struct worker *w,
			      const struct ibv_recv_wr *bad);

/* ---- Memory that clients may read and write by themselves ---- */

struct rdma_region {
	struct rdma_region *next; /* of the connection that it is lent to */
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
