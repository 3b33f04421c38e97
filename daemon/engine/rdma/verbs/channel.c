/* See channel.h. */
#include "channel.h"

#include <stdatomic.h>
#include <stdlib.h>

struct rdma_channel *rdma_channel_new(void)
{
	struct rdma_channel *channel = calloc(1, sizeof(*channel));

	if (!channel)
		return NULL;
	channel->events = rdma_create_event_channel();
	if (!channel->events) {
		free(channel);
		return NULL;
	}
	atomic_init(&channel->refs, 1);
	return channel;
}

struct rdma_channel *rdma_channel_get(struct rdma_channel *channel)
{
	atomic_fetch_add(&channel->refs, 1);
	return channel;
}

void rdma_channel_put(struct rdma_channel *channel)
{
	if (atomic_fetch_sub(&channel->refs, 1) > 1)
		return;
	rdma_destroy_event_channel(channel->events);
	free(channel);
}
