/* Engine `rdma`: copies of small messages that are too long to be sent inline.
 *
 * Send queues that need little memory allow few inline bytes.  A longer message would keep its
 * chunk until it completes, so each would have to be signalled.  Instead it is copied to a slot of
 * registered memory: its chunk is free at once, and the slot after the next signalled request.  If
 * no slot is free, the message is sent from its chunk. */
#include "small.h"

#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "worker.h"

enum { RDMA_SLOTS = 1024, RDMA_SLOT_NONE = 0 };

struct rdma_small {
	uint8_t *base;
	struct ibv_mr *mr;
	unsigned free_count;
	uint16_t free[RDMA_SLOTS]; /* free slots, numbered from 1 */
};

void rdma_small_open(struct rdma_device *d)
{
	const size_t bytes = (size_t)RDMA_SLOTS * RDMA_INLINE;
	struct rdma_small *s = calloc(1, sizeof(*s));

	if (!s)
		return;
	s->base = aligned_alloc(4096, bytes);
	s->mr = s->base ? ibv_reg_mr(d->pd, s->base, bytes, 0) : NULL;
	if (!s->mr) {
		free(s->base);
		free(s);
		return;
	}
	for (unsigned i = 0; i < RDMA_SLOTS; i++)
		s->free[s->free_count++] = (uint16_t)(RDMA_SLOTS - i);
	stat_add(d->worker->stats.registered_bytes, bytes);
	d->small = s;
}

void rdma_small_close(struct rdma_device *d)
{
	struct rdma_small *s = d->small;

	if (!s)
		return;
	stat_add(d->worker->stats.registered_bytes, -(uint64_t)s->mr->length);
	ibv_dereg_mr(s->mr);
	free(s->base);
	free(s);
	d->small = NULL;
}

bool rdma_small_add(struct rdma_small *s, struct rdma_slots *slots, unsigned at,
		    const struct view *v, struct ibv_sge *ret_sge)
{
	uint16_t slot;
	uint8_t *to;

	if (!s || s->free_count == 0 || v->len > RDMA_INLINE)
		return false;
	slot = s->free[--s->free_count];
	to = s->base + (size_t)(slot - 1) * RDMA_INLINE;
	memcpy(to, v->data, v->len);
	slots->of[(slots->first + at) % RDMA_SENDS] = slot;
	*ret_sge = (struct ibv_sge){ (uintptr_t)to, v->len, s->mr->lkey };
	return true;
}

void rdma_small_done(struct rdma_small *s, struct rdma_slots *slots, unsigned requests)
{
	for (; s && requests > 0; requests--) {
		uint16_t *slot = &slots->of[slots->first];

		if (*slot != RDMA_SLOT_NONE)
			s->free[s->free_count++] = *slot;
		*slot = RDMA_SLOT_NONE;
		slots->first = (slots->first + 1) % RDMA_SENDS;
	}
}
