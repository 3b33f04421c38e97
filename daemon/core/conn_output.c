/* Output.  What services write: copies, room to fill, and constant bytes, in chunks that
 * connections share; and the end of it.  What the kernel has taken: it leaves its queue, and the
 * clock of an operation stops.  Worker's thread only. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "conn.h"
#include "conn_op.h"
#include "engine.h"

/* The worker's scratch chunk with room for `bytes`; successive writes share it. */
static struct chunk *conn_scratch(struct worker *w, size_t bytes)
{
	struct chunk *k = w->scratch;

	if (k && k->used + bytes <= w->pool.chunk_size)
		return k;
	w->scratch = chunk_get(&w->pool);
	if (k)
		chunk_put(&w->pool, k);
	return w->scratch;
}

struct view *conn_room(struct worker *w, size_t head, size_t bytes, size_t align)
{
	struct chunk *k = w->scratch;
	size_t at = k ? (k->used + head + align - 1) & ~(align - 1) : 0;

	if (!k || at + bytes > w->pool.chunk_size) {
		at = (head + align - 1) & ~(align - 1);
		if (at + bytes > w->pool.chunk_size)
			return NULL;
		k = conn_scratch(w, w->pool.chunk_size);
		if (!k)
			return NULL;
	}
	k->used = (uint32_t)(at + bytes);
	return view_new(&w->pool, k, k->base + at, (uint32_t)bytes);
}

struct chunk *conn_constant(struct conn *c, void (*fill)(uint8_t *bytes, uint32_t size))
{
	struct worker *w = c->worker;

	if (likely(w->constant != NULL))
		return w->constant;
	w->constant = chunk_get(&w->pool);
	if (w->constant)
		fill(w->constant->base, w->pool.chunk_size);
	else
		conn_wait_for_memory(c);
	return w->constant;
}

int conn_write(struct conn *c, const void *data, size_t bytes)
{
	struct worker *w = c->worker;
	size_t room = w->scratch ? w->pool.chunk_size - w->scratch->used : 0, n;
	const uint8_t *from = data;

	/* The message starts in a new chunk. */
	if (w->engine->messages && bytes > room && w->scratch) {
		chunk_put(&w->pool, w->scratch);
		w->scratch = NULL;
		room = 0;
	}
	if (bytes > room && w->pool.free_count < bytes / w->pool.chunk_size + 1)
		return -ENOBUFS;
	for (; bytes > 0; bytes -= n, from += n) {
		struct chunk *k = conn_scratch(w, MIN(bytes, w->pool.chunk_size));
		uint8_t *to = k->base + k->used;
		struct view *tail = c->tx.tail;

		n = MIN(bytes, w->pool.chunk_size - k->used);
		memcpy(to, from, n);
		k->used += (uint32_t)n;
		if (tail && tail->chunk == k && tail->data + tail->len == to &&
		    !w->engine->messages) {
			tail->len += (uint32_t)n;
			c->tx.bytes += n;
		} else {
			bufq_push(&c->tx, view_new(&w->pool, k, to, (uint32_t)n));
		}
	}
	return 0;
}

bool conn_try_write(struct conn *c, const void *data, size_t bytes)
{
	if (likely(conn_write(c, data, bytes) == 0))
		return true;
	conn_wait_for_memory(c);
	return false;
}

void conn_end_output(struct conn *c)
{
	const struct worker *w = c->worker;

	if (w->service->end_output) {
		w->service->end_output(c);
		return;
	}
	stat_add(c->worker->stats.sys_shutdown, 1);
	shutdown(c->fd, SHUT_WR);
}

/* ---- Sent output ---- */

static void conn_op_time(struct conn *c, uint64_t end_ns)
{
	struct worker *w = c->worker;

	if (end_ns < c->op_start_ns)
		end_ns = clock_ns();
	histogram_add(&w->stats.operations[c->op_index].latency, end_ns - c->op_start_ns,
		      c->op_count);
	c->op_start_ns = 0;
}

void conn_op_end(struct conn *c)
{
	if (c->op_start_ns)
		conn_op_time(c, 0);
}

void conn_sent_some(struct conn *c, struct bufq *q, size_t bytes, uint64_t sent_ns)
{
	bufq_drop_slow(&c->worker->pool, q, bytes);
	c->active_ns = c->worker->turn.now_ns;
	if (c->op_start_ns && !conn_has_unsent(c))
		conn_op_time(c, sent_ns);
	if (conn_waits_for(c, q))
		conn_ready(c);
}

void conn_sent_messages(struct conn *c, struct bufq *q, size_t views, bool sent, uint64_t sent_ns)
{
	struct worker *w = c->worker;
	size_t bytes = q->bytes;

	bufq_drop_views(&w->pool, q, views);
	bytes -= q->bytes;
	if (sent) {
		stat_add(w->stats.bytes_out, bytes);
		stat_add(w->stats.datagrams_out, views);
		c->bytes_out += bytes;
	} else {
		stat_add(w->stats.datagrams_unsent, views);
	}
	if (c->op_start_ns && !conn_has_unsent(c))
		conn_op_time(c, sent_ns);
	if (conn_waits_for_tx(c))
		conn_ready(c);
}
