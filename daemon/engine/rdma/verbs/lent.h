/* Chunks lent to a device that may complete in any order: for a shared receive queue or for
 * datagrams. */
#pragma once
#include <infiniband/verbs.h>
#include <stdbool.h>

#include "device.h"

struct chunk;
struct pool;

enum { RDMA_CHAIN_MAX = 64 }; /* receives posted by one call, once this many are missing */

struct rdma_lent {
	bool *is; /* by chunk id: is it lent? NULL: closed */
	unsigned count, max;
};

/* Receive requests that one call posts. */
struct rdma_chain {
	struct ibv_recv_wr requests[RDMA_CHAIN_MAX];
	struct ibv_sge sges[RDMA_CHAIN_MAX];
};

/* Allows up to `most` chunks, or this device's share of the pool if that is less, to be lent.  0 or
 * -ENOMEM. */
int rdma_lent_open(struct rdma_lent *lent, struct worker *w, unsigned most);
/* Allows fewer. */
void rdma_lent_limit(struct rdma_lent *lent, struct worker *w, unsigned max);
/* To be called when the device no longer uses any of them.  Does nothing if closed already. */
void rdma_lent_close(struct rdma_lent *lent, struct worker *w);
/* Takes back a chunk that the device no longer uses.  False: it was taken back before. */
bool rdma_lent_back(struct rdma_lent *lent, struct pool *p, struct chunk *k);
/* Takes back all chunks; the device no longer uses them. */
void rdma_lent_forget(struct rdma_lent *lent, struct pool *p);
/* Fills the chain with up to `most` chunks as far as the pool allows.  Returns their number; they
 * count as lent. */
unsigned rdma_lent_chain(struct rdma_lent *lent, struct worker *w, const struct rdma_device *d,
			 struct rdma_chain *chain, enum rdma_tag tag, unsigned most);
/* The chunk of a request. */
struct chunk *rdma_lent_chunk(const struct ibv_recv_wr *wr);
/* ibv_post_* did not accept `bad` and the requests after it: takes their chunks back. */
void rdma_lent_not_posted(struct rdma_lent *lent, struct worker *w, const struct ibv_recv_wr *bad);
