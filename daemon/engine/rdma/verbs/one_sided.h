/* Engine `rdma`: one-sided operations, and memory that clients read and write. */
#pragma once
#include "queue.h"
#include "remote.h"

/* Functions of struct engine. */
void rdma_remote_submit(struct remote *remote);
int rdma_region(struct conn *c, size_t bytes, struct region *ret_region);
void rdma_spill(const struct conn *c, struct region *ret_region);
unsigned rdma_send_spill(struct conn *c, uint32_t bytes);

/* To be called before the other functions. */
void rdma_remote_open(struct rdma_conn *r);
/* Adds unposted operations to the chain, as far as there is room; false: not all. */
bool rdma_remote_add(struct rdma_conn *r, struct rdma_send_chain *chain);
/* Ends the first `count` operations of a lane, which have completed. */
void rdma_remote_completed(struct rdma_lane *lane, unsigned count);
/* Ends all operations and frees the regions; the queue pair must be destroyed before. */
void rdma_remote_close(struct rdma_conn *r);
