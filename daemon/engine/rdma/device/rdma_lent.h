/* Chunks that a device may fill in any order: of a shared receive queue, or of datagrams. */
#pragma once
#include <infiniband/verbs.h>
#include <stdbool.h>

#include "rdma_device.h"

struct chunk;
struct pool;

enum { RDMA_CHAIN_MAX = 64 }; /* posted by one call: when so many are missing */

struct rdma_lent {
	bool *is; /* by the chunk's id; NULL: closed */
	unsigned count, max;
};

/* Requests that one call posts. */
struct rdma_chain {
	struct ibv_recv_wr requests[RDMA_CHAIN_MAX];
	struct ibv_sge sges[RDMA_CHAIN_MAX];
};

/* Allows `most` chunks to be lent, or its share of the pool if that is less.  0 or -ENOMEM; nothing
 * is lent yet. */
int rdma_lent_open(struct rdma_lent *lent, struct worker *w, unsigned most);
/* The device is done with all of them; may be closed already. */
void rdma_lent_close(struct rdma_lent *lent, struct worker *w);
/* Takes a chunk back: the device is done with it.  False: it was taken back before. */
bool rdma_lent_back(struct rdma_lent *lent, struct pool *p, struct chunk *k);
/* Takes all chunks back: the device is done with them. */
void rdma_lent_forget(struct rdma_lent *lent, struct pool *p);
/* Takes chunks as far as the pool allows; how many, counted as posted. */
unsigned rdma_lent_chain(struct rdma_lent *lent, struct worker *w, const struct rdma_device *d,
			 struct rdma_chain *chain, enum rdma_tag tag);
/* The verb did not take `bad`, nor what follows. */
void rdma_lent_not_posted(struct rdma_lent *lent, struct pool *p, const struct ibv_recv_wr *bad);
