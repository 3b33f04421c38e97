/* Engine `rdma`, level 3: receives that all connections of a device share. */
#pragma once
#include "rdma_queue.h"

/* 0 or -errno with the reason; rdma_shared_close() follows in every case, perhaps without this. */
int rdma_shared_open(struct rdma_device *d, struct reason *reason);
void rdma_shared_close(struct rdma_device *d);
/* NULL: there are none. */
struct ibv_srq *rdma_shared_queue(const struct rdma_device *d);
/* Posts them again: when enough are missing. */
void rdma_shared_feed(struct rdma_device *d);
/* Between these its receives find r by r->number.  Nothing without shared receives, or if it was
 * not added. */
void rdma_shared_add(struct rdma_conn *r);
void rdma_shared_remove(struct rdma_conn *r);
/* One has completed, in chunk k: whose; NULL: who had that number has ended. */
struct rdma_conn *rdma_shared_received(struct rdma_device *d, struct chunk *k,
				       const struct ibv_wc *wc);
