/* The service around a service: opens what was received, runs the service, seals what it sends.
 * Worker's thread.  See stage.h. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "stage.h"

enum {
	/* Results without data in a row that end a connection.  OpenSSL has two for each record
	 * that asks for other keys, and ends the session itself at more than 32 such records. */
	STAGE_CONTROLS = 64,
	STAGE_ROOM = 4096, /* bytes of a chunk that are worth a record */
};

/* ---- Input ---- */

static void stage_closed(struct stage_conn *t)
{
	struct conn *c = t->conn;

	t->closed = true;
	bufq_clear(&c->worker->pool, &t->in); /* nothing may follow a close_notify */
	if (c->flags & CONN_EOF)
		return;
	conn_eof(c);
	c->worker->engine->recv(c, false);
}

/* Handles a result that is no data; false: nothing more can be opened or sealed in this run. */
static bool stage_result(struct stage_conn *t, int result)
{
	struct conn *c = t->conn;

	switch (result) {
	case TLS_ASKED:
		t->asked = true;
		/* fallthrough */
	case TLS_CONTROL:
		if (++t->controls > STAGE_CONTROLS)
			stage_fail(t, "too many records without data");
		else
			return stage_may_step(c);
		break;
	case TLS_WANT_INPUT:
		break;
	case TLS_WANT_MEMORY:
		conn_wait_for_memory(c);
		break;
	case TLS_CLOSED:
		stage_closed(t);
		break;
	default:
		stage_fail(t, tls_library.why(t->session));
	}
	return false;
}

/* Opens records into c->rx, up to what a connection may hold. */
static void stage_open_records(struct stage_conn *t)
{
	struct conn *c = t->conn;
	struct worker *w = c->worker;
	struct stage_worker *part = worker_part(w);

	t->more = false;
	while (!t->closed && !t->failed) {
		struct chunk *k;
		size_t room;
		int n;

		if (c->rx.bytes >= w->limits.held_max) {
			t->more = true;
			return;
		}
		k = chunk_with_room(&w->pool, &part->opened, STAGE_ROOM);
		if (!k) {
			conn_wait_for_memory(c);
			return;
		}
		room = w->pool.chunk_size - k->used;
		n = tls_library.read(t->session, k->base + k->used, room);
		if (likely(n > 0)) {
			stat_add(w->stats.tls_plain_in, (unsigned)n);
			t->controls = 0;
			chunk_append(&w->pool, &c->rx, k, (size_t)n);
			/* Record and input are used up: one more call would find nothing. */
			if ((size_t)n < room && !t->in.head)
				return;
		} else if (!stage_result(t, n)) {
			return;
		}
	}
}

/* ---- Output ---- */

/* The next bytes to seal, at most a record: a part of a view, or small views joined. */
static const void *next_record(struct stage_conn *t, size_t *ret_bytes)
{
	struct worker *w = t->conn->worker;
	uint8_t *joined = worker_part(w)->joined;
	const struct view *v = t->plain.head;
	size_t bytes = MIN(t->plain.bytes, (size_t)TLS_RECORD_MAX), used = 0;

	*ret_bytes = bytes;
	if (v->len >= bytes)
		return v->data;
	for (; used < bytes; v = v->next) {
		size_t n = MIN(v->len, bytes - used);

		memcpy(joined + used, v->data, n);
		used += n;
	}
	stat_add(w->stats.bytes_copied, bytes);
	return joined;
}

/* Seals the service's output; true: all of it. */
static bool stage_seal(struct stage_conn *t)
{
	struct conn *c = t->conn;
	struct worker *w = c->worker;

	while (t->plain.head) {
		size_t bytes;
		const void *data = next_record(t, &bytes);
		int n = tls_library.write(t->session, data, bytes);

		if (likely(n > 0)) {
			stat_add(w->stats.tls_plain_out, (unsigned)n);
			bufq_drop(&w->pool, &t->plain, (size_t)n);
		} else if (!stage_result(t, n)) {
			return false;
		}
	}
	if (unlikely(t->last))
		c->flags |= CONN_LAST;
	return true;
}

/* ---- The service ---- */

/* Runs the service, and takes what it has appended to c->tx, unless the kernel seals it. */
static void run_service(struct stage_conn *t)
{
	struct conn *c = t->conn;
	struct bufq before = c->tx;

	if (t->watching)
		c->flags &= ~(uint32_t)CONN_WATCH_TX;
	t->watching = false;
	stage_of(c->worker)->inner->run(c);
	if (c->tx.bytes == before.bytes)
		return;
	if (t->kernel & KERNEL_SENDS) {
		stat_add(c->worker->stats.tls_plain_out, c->tx.bytes - before.bytes);
		return;
	}
	t->plain = (struct bufq){
		.head = before.tail ? before.tail->next : c->tx.head,
		.tail = c->tx.tail,
		.bytes = c->tx.bytes - before.bytes,
		.views = c->tx.views - before.views,
	};
	c->tx = before;
	if (before.tail)
		before.tail->next = NULL;
}

/* Sends close_notify if the service has no more output: when it said so, and when it needs no more
 * input after the client's end. */
static void stage_end(struct stage_conn *t)
{
	struct conn *c = t->conn;
	bool over = (c->flags & CONN_EOF) && !c->rx.head && !t->more && c->io.count == 0 &&
		    !(c->flags & (CONN_WATCH_TX | CONN_NO_MEMORY));

	if (t->ended || !((c->flags & CONN_LAST) || t->last || t->ends || over))
		return;
	if (t->kernel & KERNEL_SENDS) {
		if (!kernel_ends(t))
			return;
	} else if (tls_library.close(t->session) == TLS_WANT_MEMORY) {
		/* The client learns the end from the FIN. */
		stage_log(t, "no memory for close_notify");
	}
	t->ended = true;
	if (t->last)
		c->flags |= CONN_LAST;
	if (over)
		conn_close_when_sent(c, CONN_END_PEER);
}

/* Between runs the input that the service has left, and output that is not sealed yet, are not in
 * c's queues.  This has the core count them as held by c. */
static void hold(struct stage_conn *t, int sign)
{
	struct conn *c = t->conn;

	c->io.bytes += (size_t)sign * (t->left.bytes + t->plain.bytes);
	c->io.views += (size_t)sign * (t->left.views + t->plain.views);
}

static void count_truncated(struct stage_conn *t)
{
	if (likely(!(t->conn->flags & CONN_EOF) || t->closed || t->truncated))
		return;
	t->truncated = true;
	stat_add(t->conn->worker->stats.tls_truncated, 1);
}

/* The library opens the records, and seals them unless the kernel does. */
static void stage_serve(struct stage_conn *t)
{
	struct conn *c = t->conn;

	if (!stage_seal(t))
		return;
	stage_open_records(t);
	if (unlikely(t->asked && (t->kernel & KERNEL_SENDS) && !t->failed)) {
		stat_add(c->worker->stats.tls_key_updates, 1);
		stage_fail(t, "the client wants other keys, which the kernel cannot change");
	}
	if (t->failed || (c->flags & CONN_CLOSING))
		return;
	count_truncated(t);
	run_service(t);
	if (!stage_seal(t)) {
		/* Nothing is sent before it is sealed, so the connection does not end yet. */
		t->last |= (c->flags & CONN_LAST) && !t->failed;
		if (!t->failed)
			c->flags &= ~(uint32_t)CONN_LAST;
		return;
	}
	if (c->rx.head)
		stage_watch(t);
	stage_end(t);
	if (t->more && c->rx.bytes < c->worker->limits.held_max)
		conn_ready(c);
}

/* The kernel opens and seals: both queues are the service's. */
static void serve_opened(struct stage_conn *t)
{
	struct conn *c = t->conn;
	const char *why;

	stat_add(c->worker->stats.tls_plain_in, c->bytes_in - t->opened_in);
	t->opened_in = c->bytes_in;
	if (unlikely(t->control)) {
		why = kernel_control(t);
		if (why) {
			stage_fail(t, why);
			c->worker->engine->recv(c, false);
			return;
		}
		stage_closed(t);
	}
	if (!kernel_takes_over(t))
		return;
	count_truncated(t);
	run_service(t);
	stage_end(t);
}

/* The library opens: c->rx has records, but while the service runs. */
static void serve_records(struct stage_conn *t)
{
	struct conn *c = t->conn;

	hold(t, -1);
	t->in = c->rx;
	c->rx = t->left;
	t->left = (struct bufq){ 0 };
	if ((likely(t->established) || stage_handshake(t)) && kernel_takes_over(t) &&
	    !(t->kernel & KERNEL_RECEIVES))
		stage_serve(t);
	t->left = c->rx;
	c->rx = t->in;
	t->in = (struct bufq){ 0 };
	hold(t, 1);
}

/* Receives input from before TLS begins, since the engine does not receive for this connection.  If
 * there was some, c runs again, as more may have arrived. */
static void receive_clear(struct conn *c)
{
	struct pool *p = &c->worker->pool;
	struct chunk *k = chunk_with_room(p, &worker_part(c->worker)->opened, STAGE_ROOM);
	size_t n;

	if (!k) {
		conn_wait_for_memory(c);
		return;
	}
	n = raw_receive(c, k->base + k->used, p->chunk_size - k->used);
	if (n == 0)
		return;
	chunk_append(p, &c->rx, k, n);
	conn_ready(c);
}

static void serve_clear(struct conn *c)
{
	if (stage_receives(c) && !conn_is_full(c))
		receive_clear(c);
	if (!(c->flags & CONN_CLOSING))
		stage_of(c->worker)->inner->run(c);
}

static void stage_run(struct conn *c)
{
	struct stage_conn *t = c->stage;

	if (unlikely(t->failed)) {
		bufq_clear(&c->worker->pool, &c->rx);
		return;
	}
	if (unlikely(t->clear)) {
		serve_clear(c);
		return;
	}
	if (!(t->kernel & KERNEL_RECEIVES))
		serve_records(t);
	if ((t->kernel & KERNEL_RECEIVES) && !(c->flags & CONN_CLOSING))
		serve_opened(t);
}

static int attach(struct conn *c)
{
	int rc = kernel_attach(c->fd);

	stat_add(c->worker->stats.sys_other, 1);
	/* ENOTCONN: the client has gone. */
	stat_add(c->worker->stats.tls_kernel_refused, rc < 0 && rc != -ENOTCONN);
	return rc;
}

static int stage_open(struct conn *c)
{
	const struct tls_stage *stage = stage_of(c->worker);
	const struct service *inner = stage->inner;
	struct stage_conn *t = calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return -ENOMEM;
	t->conn = c;
	t->clear = inner->flags & SERVICE_STARTS_TLS;
	rc = stage->kernel ? attach(c) : 0;
	if (rc == 0 && inner->open)
		rc = inner->open(c);
	if (rc < 0) {
		free(t);
		return rc;
	}
	c->stage = t;
	if (stage->kernel & KERNEL_RECEIVES)
		c->flags |= CONN_RAW;
	if (!t->clear)
		conn_set_deadline(c, c->opened_ns + STAGE_HANDSHAKE_NS);
	return 0;
}

static void stage_close(struct conn *c)
{
	const struct service *inner = stage_of(c->worker)->inner;
	struct stage_conn *t = c->stage;
	struct pool *p = &c->worker->pool;

	if (inner->close)
		inner->close(c);
	stage_leave_handshake(t);
	hold(t, -1);
	bufq_clear(p, &t->left);
	bufq_clear(p, &t->plain);
	tls_library.free(t->session);
	free(t);
}

/* Sends close_notify when all output is sealed.  A FIN at this point would cut
 * off the rest of the output. */
static void stage_end_output(struct conn *c)
{
	struct stage_conn *t = c->stage;

	t->ends = true;
}

static void stage_secure(struct conn *c)
{
	struct stage_conn *t = c->stage;

	assert(t->clear && !c->rx.head);
	t->clear = false;
	conn_set_deadline(c, clock_ns() + STAGE_HANDSHAKE_NS);
}

/* EIO means that a control record has arrived, which c takes when it runs.  Other errors mean that
 * the kernel could not open a record. */
static bool stage_failed(struct conn *c, int error)
{
	struct stage_conn *t = c->stage;

	if (!t || !(t->kernel & KERNEL_RECEIVES) || t->failed)
		return false;
	if (error == EIO) {
		t->control = true;
		conn_ready(c);
		return true;
	}
	if (error != EBADMSG && error != EMSGSIZE && error != EINVAL)
		return false;
	stage_fail(t, strerror(error));
	conn_close(c, CONN_END_PROTOCOL);
	return true;
}

void stage_wrap(struct tls_stage *s)
{
	/* An input may be a part of a record, to which no answer follows. */
	s->service.flags &= ~(uint32_t)SERVICE_ANSWERS;
	s->service.open = stage_open;
	s->service.run = stage_run;
	s->service.close = stage_close;
	s->service.end_output = stage_end_output;
	s->service.secure = stage_secure;
	s->service.failed = stage_failed;
}
