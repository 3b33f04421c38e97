/* Copies of small messages that are too long to be sent inline. */
#pragma once
#include "device.h"

struct view;

/* The slots that a connection's requests use, by position in its send queue (a ring); 0: none. */
struct rdma_slots {
	unsigned first;
	uint16_t of[RDMA_SENDS];
};

/* If there is no memory for slots, messages are sent from their chunks instead. */
void rdma_small_open(struct rdma_device *d);
void rdma_small_close(struct rdma_device *d);
/* Copies v into a slot, for the request that is the at-th in the send queue.  False: v is too
 * large, or no slot is free. */
bool rdma_small_add(struct rdma_small *s, struct rdma_slots *slots, unsigned at,
		    const struct view *v, struct ibv_sge *ret_sge);
/* Frees the slots of the first `requests` of the send queue, which have completed. */
void rdma_small_done(struct rdma_small *s, struct rdma_slots *slots, unsigned requests);
