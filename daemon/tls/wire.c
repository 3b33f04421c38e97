/* The wire of a session: records from t->in, and to c->tx.  Worker's thread.  See stage.h. */
#include <string.h>

#include "stage.h"

static size_t stage_receive(void *context, void *to, size_t bytes)
{
	struct stage_conn *t = context;

	bytes = MIN(bytes, t->in.bytes);
	bufq_read(&t->conn->worker->pool, &t->in, to, bytes);
	if (unlikely(!t->established))
		t->flight += bytes;
	return bytes;
}

struct chunk *chunk_with_room(struct pool *p, struct chunk **chunk, uint32_t least)
{
	struct chunk *k = *chunk;

	if (k && k->refs == 1)
		k->used = 0;
	if (k && p->chunk_size - k->used >= least)
		return k;
	*chunk = chunk_get(p);
	if (k)
		chunk_put(p, k);
	return *chunk;
}

void chunk_append(struct pool *p, struct bufq *q, struct chunk *k, size_t bytes)
{
	struct view *tail = q->tail;
	uint8_t *at = k->base + k->used;

	k->used += (uint32_t)bytes;
	if (tail && tail->chunk == k && tail->data + tail->len == at) {
		tail->len += (uint32_t)bytes;
		q->bytes += bytes;
	} else {
		bufq_push(q, view_new(p, k, at, (uint32_t)bytes));
	}
}

static size_t stage_send(void *context, const void *data, size_t bytes)
{
	struct stage_conn *t = context;
	struct worker *w = t->conn->worker;
	struct chunk *k = chunk_with_room(&w->pool, &worker_part(w)->sealed, 1);

	if (!k)
		return 0;
	bytes = MIN(bytes, w->pool.chunk_size - k->used);
	memcpy(k->base + k->used, data, bytes);
	chunk_append(&w->pool, &t->conn->tx, k, bytes);
	return bytes;
}

const struct tls_wire stage_wire = { .receive = stage_receive, .send = stage_send };
