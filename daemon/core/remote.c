/* One-sided operations: accounting.  See remote.h; engines do the work.  Worker's thread only. */
#include "remote.h"

#include <errno.h>

#include "conn.h"
#include "engine.h"

enum { REMOTE_ALIGN = 64 }; /* a cache line, which devices write as a whole */

void remote_submit(struct remote *remote)
{
	struct conn *c = remote->conn;

	assert(remote->data.head);
	conn_io_begin(c, &remote->data);
	remote->unposted = remote->data.head;
	remote->progress = 0;
	c->worker->engine->remote->submit(remote);
}

void remote_finish(struct remote *remote, int result)
{
	struct conn *c = remote->conn;
	struct worker *w = c->worker;

	conn_io_end(c, &remote->data);
	if (result == 0 && remote->kind == REMOTE_READ) {
		stat_add(w->stats.bytes_in, remote->data.bytes);
		c->bytes_in += remote->data.bytes;
	} else if (result == 0) {
		stat_add(w->stats.bytes_out, remote->data.bytes);
		c->bytes_out += remote->data.bytes;
	}
	conn_ready(c);
	remote->done(remote, result);
}

int remote_room(struct worker *w, struct bufq *q, size_t bytes)
{
	while (bytes > 0) {
		uint32_t n = (uint32_t)MIN(bytes, w->pool.chunk_size);
		struct view *v = conn_room(w, 0, n, REMOTE_ALIGN);

		if (!v) {
			bufq_drop(&w->pool, q, q->bytes);
			return -ENOBUFS;
		}
		bufq_push(q, v);
		bytes -= n;
	}
	return 0;
}

void remote_scratch_region(const struct conn *c, struct region *ret_region)
{
	c->worker->engine->remote->scratch_region(c, ret_region);
}

unsigned remote_send_scratch(struct conn *c, uint32_t bytes)
{
	return c->worker->engine->remote->send_scratch(c, bytes);
}

void remote_message(struct conn *c, const uint8_t *head, uint32_t bytes)
{
	struct worker *w = c->worker;

	stat_add(w->stats.bytes_in, bytes);
	c->bytes_in += bytes;
	if (c->flags & CONN_CLOSING)
		return;
	w->service->message(c, head, bytes);
	conn_ready(c);
}

int remote_region(struct conn *c, size_t bytes, struct region *ret_region)
{
	return c->worker->engine->remote->region(c, bytes, ret_region);
}
