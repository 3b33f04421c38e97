/* Small messages that a send queue does not take inline. */
#pragma once
#include "rdma_device.h"

struct view;

/* A connection's slots, by the place of the request in its send queue, a ring; 0: none. */
struct rdma_slots {
	unsigned first;
	uint16_t of[RDMA_SENDS];
};

/* Without memory for the slots no message is copied: each is sent from its chunk. */
void rdma_small_open(struct rdma_device *d);
void rdma_small_close(struct rdma_device *d);
/* Copies v, for the at-th request from the first that is in the send queue.  False: too large, or
 * no slot is free. */
bool rdma_small_add(struct rdma_small *s, struct rdma_slots *slots, unsigned at,
		    const struct view *v, struct ibv_sge *ret_sge);
/* The first `requests` of the send queue are done. */
void rdma_small_done(struct rdma_small *s, struct rdma_slots *slots, unsigned requests);
