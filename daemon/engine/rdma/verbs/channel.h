/* An event channel of the connection manager.  Counted, as an identifier that is handed over needs
 * the old channel until it is moved, and the worker that made the channel may end before. */
#pragma once
#include <rdma/rdma_cma.h>

struct rdma_channel {
	struct rdma_event_channel *events;
	_Atomic unsigned refs;
};

/* NULL: it cannot be made. */
struct rdma_channel *rdma_channel_new(void);
struct rdma_channel *rdma_channel_get(struct rdma_channel *channel);
/* Any thread. */
void rdma_channel_put(struct rdma_channel *channel);
