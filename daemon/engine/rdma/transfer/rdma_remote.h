/* Engine `rdma`, level 3: one-sided operations, and memory that clients read and write. */
#pragma once
#include "rdma_queue.h"
#include "remote.h"

/* Functions of struct engine. */
void rdma_remote_submit(struct remote *remote);
int rdma_region(struct conn *c, size_t bytes, struct region *ret_region);
void rdma_spill(const struct conn *c, struct region *ret_region);
unsigned rdma_send_spill(struct conn *c, uint32_t bytes);

/* Before any other: none are under way. */
void rdma_remote_open(struct rdma_conn *r);
/* Adds what was asked for and is not posted; false: as much of it as there is room for. */
bool rdma_remote_add(struct rdma_conn *r, struct rdma_send_chain *chain);
/* The first `count` are done. */
void rdma_remote_completed(struct rdma_conn *r, unsigned count);
/* The queue pair is destroyed: ends them, and takes the memory back. */
void rdma_remote_close(struct rdma_conn *r);
