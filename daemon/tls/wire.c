/* The wire of a session: records from t->in, and to c->tx.  Worker's thread.  See stage.h. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "engine.h"
#include "stage.h"

size_t raw_receive(struct conn *c, void *to, size_t bytes)
{
	ssize_t n = recv(c->fd, to, bytes, MSG_DONTWAIT);

	stat_add(c->worker->stats.sys_recv, 1);
	if (n < 0 && errno != EAGAIN)
		conn_failed(c, errno);
	if (n == 0) {
		conn_eof(c);
		c->worker->engine->recv(c, false);
		conn_close_when_sent(c, CONN_END_PEER);
	}
	if (n <= 0)
		return 0;
	stat_add(c->worker->stats.bytes_in, (size_t)n);
	c->bytes_in += (size_t)n;
	return (size_t)n;
}

static size_t stage_receive(void *context, void *to, size_t bytes)
{
	struct stage_conn *t = context;
	struct conn *c = t->conn;

	if (stage_receives(c) && !t->in.head) {
		if (t->flight > STAGE_FLIGHT || (c->flags & CONN_CLOSING))
			return 0;
		bytes = raw_receive(c, to, bytes);
	} else {
		bytes = MIN(bytes, t->in.bytes);
		bufq_read(&c->worker->pool, &t->in, to, bytes);
	}
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
	struct chunk *k;

	if (unlikely(t->kernel & KERNEL_SENDS))
		return bytes; /* an alert of the library, which the kernel cannot send */
	k = chunk_with_room(&w->pool, &worker_part(w)->sealed, 1);
	if (!k)
		return 0;
	bytes = MIN(bytes, w->pool.chunk_size - k->used);
	memcpy(k->base + k->used, data, bytes);
	chunk_append(&w->pool, &t->conn->tx, k, bytes);
	return bytes;
}

const struct tls_wire stage_wire = { .receive = stage_receive, .send = stage_send };
