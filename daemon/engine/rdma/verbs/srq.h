/* Engine `rdma`: receives that all connections of a device share. */
#pragma once
#include "queue.h"

/* 0, or -errno with the reason.  The caller calls rdma_shared_close() in both cases, which also
 * works without this. */
int rdma_shared_open(struct rdma_device *d, struct reason *reason);
void rdma_shared_close(struct rdma_device *d);
/* NULL: d has no shared receives. */
struct ibv_srq *rdma_shared_queue(const struct rdma_device *d);
/* Posts receives when enough are missing. */
void rdma_shared_feed(struct rdma_device *d);
/* Between these two calls completions of shared receives find r by r->number.  No effect without
 * shared receives, or if r was not added. */
void rdma_shared_add(struct rdma_conn *r);
void rdma_shared_remove(struct rdma_conn *r);
/* A shared receive into chunk k has completed.  Returns its connection; NULL: it has ended. */
struct rdma_conn *rdma_shared_received(struct rdma_device *d, struct chunk *k,
				       const struct ibv_wc *wc);
