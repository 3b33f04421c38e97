/* The service around a service: opens what was received, runs the service, seals what it sends.
 * Worker's thread.  See stage.h. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "engine.h"
#include "log.h"
#include "stage.h"

static struct tls_stage *stage_of(const struct worker *w)
{
	return container_of(w->service, struct tls_stage, service);
}

static struct stage_worker *worker_part(const struct worker *w)
{
	return &stage_of(w)->workers[w->index];
}

/* CONN_WATCH_TX for the stage's own purpose, until the service runs next. */
static void stage_watch(struct stage_conn *t)
{
	if (t->conn->flags & CONN_WATCH_TX)
		return;
	t->conn->flags |= CONN_WATCH_TX;
	t->watching = true;
}

/* Does the stage receive by itself?  Not in the first run: if something has arrived,
 * the engine runs c again. */
static bool stage_receives(const struct conn *c)
{
	return (c->flags & (CONN_RAW | CONN_FRESH | CONN_EOF)) == CONN_RAW;
}

/* For connections with CONN_RAW: receives.  0: there is nothing now, or c ends. */
static size_t stage_raw_receive(struct conn *c, void *to, size_t bytes)
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
		bytes = stage_raw_receive(c, to, bytes);
	} else {
		bytes = MIN(bytes, t->in.bytes);
		bufq_read(&c->worker->pool, &t->in, to, bytes);
	}
	if (unlikely(!t->established))
		t->flight += bytes;
	return bytes;
}

/* *chunk with room for at least `least` bytes: as it is, emptied if no view uses it, or a new one.
 * NULL: the pool is exhausted. */
static struct chunk *stage_chunk(struct pool *p, struct chunk **chunk, uint32_t least)
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

/* Appends the next `bytes` bytes of the chunk, behind its used ones, to q. */
static void stage_append(struct pool *p, struct bufq *q, struct chunk *k, size_t bytes)
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
	k = stage_chunk(&w->pool, &worker_part(w)->sealed, 1);
	if (!k)
		return 0;
	bytes = MIN(bytes, w->pool.chunk_size - k->used);
	memcpy(k->base + k->used, data, bytes);
	stage_append(&w->pool, &t->conn->tx, k, bytes);
	return bytes;
}

static const struct tls_wire stage_wire = { .receive = stage_receive, .send = stage_send };

enum {
	/* Steps of handshakes, and records without data, of a worker's turn; the others wait for
	 * the next one, as each may cost 0.3 ms. */
	STAGE_STEPS = 8,
	/* Maximum of handshakes of a worker that have begun: one more ends the oldest. */
	STAGE_HANDSHAKES = 1024,
};

/* May the worker make another step in this turn?  If not, c runs again in the next. */
static bool stage_may_step(struct conn *c)
{
	struct stage_worker *part = worker_part(c->worker);
	uint64_t turn = stat_load(c->worker->stats.turns);

	if (part->turn != turn) {
		part->turn = turn;
		part->steps = 0;
	}
	if (part->steps < STAGE_STEPS) {
		part->steps++;
		return true;
	}
	conn_ready(c);
	return false;
}

/* The connection leaves the list of handshakes. */
static void stage_leave_handshake(struct stage_conn *t)
{
	struct stage_worker *part = worker_part(t->conn->worker);

	if (!t->shaking)
		return;
	t->shaking = false;
	*(t->prev ? &t->prev->next : &part->first) = t->next;
	*(t->next ? &t->next->prev : &part->last) = t->prev;
	part->count--;
}

static void handshake_enter(struct stage_conn *t)
{
	struct worker *w = t->conn->worker;
	struct stage_worker *part = worker_part(w);

	if (part->count == STAGE_HANDSHAKES) {
		struct stage_conn *oldest = part->first;

		stat_add(w->stats.tls_evicted, 1);
		oldest->failed = true;
		conn_close(oldest->conn, CONN_END_PROTOCOL);
		stage_leave_handshake(oldest);
	}
	t->shaking = true;
	t->prev = part->last;
	*(t->prev ? &t->prev->next : &part->first) = t;
	part->last = t;
	part->count++;
}

static void stage_log(const struct stage_conn *t, const char *why)
{
	conn_log(t->conn, LOG_DEBUG, "TLS: %s%s", t->established ? "" : "in the handshake: ", why);
}

/* Logs, at any level of the log, a client that cannot prove a shared key. */
static void stage_log_failure(const struct stage_conn *t, const char *why)
{
	const char *identity = NULL;

	if (t->session && !t->established)
		identity = tls_library.identity(t->session);
	if (!identity)
		stage_log(t, why);
	else
		conn_warn(t->conn, "TLS: in the handshake: %s%s%s", why,
			  *identity ? "; it is " : "", identity);
}

/* The session is over: an alert that the library has written is the last output. */
static void stage_fail(struct stage_conn *t, const char *why)
{
	struct conn *c = t->conn;
	struct pool *p = &c->worker->pool;

	stage_log_failure(t, why);
	stat_add(c->worker->stats.tls_failed, 1);
	t->failed = true;
	stage_leave_handshake(t);
	bufq_clear(p, &t->in);
	bufq_clear(p, &t->plain);
	bufq_clear(p, &c->rx);
	conn_close_when_sent(c, CONN_END_PROTOCOL);
	/* received only to notice the end of the connection; the data is dropped */
	if (c->flags & CONN_RAW) {
		c->flags &= ~(uint32_t)CONN_RAW;
		c->worker->engine->recv(c, true);
	}
}

static bool open_session(struct stage_conn *t)
{
	struct tls_stage *stage = stage_of(t->conn->worker);

	pthread_mutex_lock(&stage->lock);
	t->session = tls_library.session(stage->context, &stage_wire, t);
	pthread_mutex_unlock(&stage->lock);
	if (t->session)
		handshake_enter(t);
	else
		conn_close(t->conn, CONN_END_ERROR);
	return t->session;
}

/* Makes one step; the first one opens the session.  Its CPU time is counted apart, as it belongs
 * to the connection and to none of its requests. */
static int handshake_step(struct stage_conn *t)
{
	struct stats *stats = &t->conn->worker->stats;
	uint64_t begin_ns = clock_thread_ns();
	int rc = TLS_WANT_INPUT;

	if (t->session || open_session(t))
		rc = tls_library.handshake(t->session);
	stat_add(stats->tls_handshake_cpu_ns, clock_thread_ns() - begin_ns);
	stat_add(stats->sys_other, 2); /* the clock */
	return rc;
}

/* Without memory for the identity the client counts as one that has proved no key. */
static void keep_identity(struct stage_conn *t)
{
	const char *identity = tls_library.identity(t->session);

	if (identity && *identity)
		t->identity = strdup(identity);
}

/* Continues the handshake; true: it is done. */
static bool stage_handshake(struct stage_conn *t)
{
	struct conn *c = t->conn;
	int rc;

	if (unlikely(conn_deadline_passed(c))) {
		stat_add(c->worker->stats.tls_timeouts, 1);
		conn_close(c, CONN_END_PROTOCOL);
		return false;
	}
	if ((!t->in.head && !t->starved && !stage_receives(c)) || !stage_may_step(c))
		return false;
	rc = handshake_step(t);
	if (!t->session)
		return false;
	t->starved = rc == TLS_WANT_MEMORY;
	if (rc == 0) {
		stage_leave_handshake(t);
		conn_set_deadline(c, 0);
		stat_add(c->worker->stats.tls_handshakes, 1);
		t->established = true;
		keep_identity(t);
	} else if (t->starved) {
		conn_wait_for_memory(c);
	} else if (rc != TLS_WANT_INPUT && rc != TLS_CONTROL) {
		stage_fail(t, tls_library.why(t->session));
	} else if (t->flight > STAGE_FLIGHT) {
		stage_fail(t, "too many bytes");
	} else if (rc == TLS_CONTROL) {
		conn_ready(c);
	}
	return t->established;
}

enum {
	/* RFC 8446: content types, an alert and a message */
	CONTENT_ALERT = 21,
	CONTENT_HANDSHAKE = 22,
	ALERT_CLOSE_NOTIFY = 0,
	MESSAGE_KEY_UPDATE = 24,
	/* Attempts to send close_notify to a client that takes no output.  The wait before
	 * the next attempt doubles CLOSE_DOUBLINGS times, from CLOSE_WAIT_NS on, and then
	 * stays: about a minute in all. */
	CLOSE_TRIES = 100,
	CLOSE_DOUBLINGS = 6,
};
#define CLOSE_WAIT_NS (10 * (uint64_t)NS_PER_MS)

static bool give_keys_to_kernel(struct stage_conn *t, enum kernel_direction direction)
{
	struct conn *c = t->conn;
	struct stats *stats = &c->worker->stats;
	struct tls_keys keys = { 0 };
	int rc = -ENOKEY;

	if (tls_library.keys(t->session, direction == KERNEL_SENDS, &keys))
		rc = kernel_give(c->fd, direction, stage_of(c->worker)->cipher, &keys);
	explicit_bzero(&keys, sizeof(keys));
	stat_add(stats->sys_other, direction == KERNEL_SENDS ? 1 : 2);
	if (rc < 0) {
		stat_add(stats->tls_kernel_refused, 1);
		stage_log(t, strerror(-rc));
		conn_close(c, CONN_END_ERROR);
		return false;
	}
	stat_add(stats->tls_kernel_sends, direction == KERNEL_SENDS);
	stat_add(stats->tls_kernel_receives, direction == KERNEL_RECEIVES);
	t->kernel |= (uint8_t)direction;
	return true;
}

/* Gives the kernel the keys to open the client's records.  The library has read no byte behind the
 * last record of the handshake, so the kernel begins with the first record with data, even if that
 * has arrived already. */
static bool take_input(struct stage_conn *t)
{
	struct conn *c = t->conn;

	if (t->in.head) {
		stage_fail(t, "data before the end of the handshake");
		return false;
	}
	if (!give_keys_to_kernel(t, KERNEL_RECEIVES))
		return false;
	c->flags &= ~(uint32_t)CONN_RAW;
	t->opened_in = c->bytes_in;
	c->worker->engine->recv(c, true);
	return true;
}

/* Gives the kernel the keys of a session whose handshake is done.  False: not all of them yet, and
 * c runs again when it may, or the connection ends. */
static bool stage_give_kernel(struct stage_conn *t)
{
	struct conn *c = t->conn;
	unsigned missing = stage_of(c->worker)->kernel & ~(unsigned)t->kernel;

	if (likely(!missing))
		return true;
	if ((missing & KERNEL_RECEIVES) && !take_input(t))
		return false;
	if (conn_has_unsent(c)) { /* by the library */
		stage_watch(t);
		return false;
	}
	if (!give_keys_to_kernel(t, KERNEL_SENDS))
		return false;
	if (t->kernel & KERNEL_RECEIVES) {
		tls_library.free(t->session);
		t->session = NULL;
	}
	return true;
}

/* The record that a receive has met: NULL if it was close_notify, else why the session is over. */
static const char *stage_read_control(struct stage_conn *t)
{
	struct conn *c = t->conn;
	uint8_t data[2], type;
	ssize_t n = kernel_receive_control(c->fd, &type, data, sizeof(data));

	t->control = false;
	stat_add(c->worker->stats.sys_recv, 1);
	if (n < 0)
		return strerror((int)-n);
	if (type == CONTENT_ALERT)
		return n == 2 && data[1] == ALERT_CLOSE_NOTIFY ? NULL : "the client's alert";
	if (type != CONTENT_HANDSHAKE || n == 0 || data[0] != MESSAGE_KEY_UPDATE)
		return "a record that has no place behind the handshake";
	stat_add(c->worker->stats.tls_key_updates, 1);
	return "the client changes its keys, which the kernel cannot follow";
}

/* ---- The end ---- */

static const struct bufq nothing;

static void retry_due(struct timer *timer, uint64_t now_ns)
{
	struct stage_conn *t = container_of(timer, struct stage_conn, retry);

	(void)now_ns;
	conn_io_end(t->conn, &nothing);
	t->conn->flags |= CONN_OWN_RUN;
	conn_ready(t->conn);
}

/* Has the kernel send close_notify behind all output, and send both before c can end.  False: not
 * yet, and c runs again when it may. */
static bool stage_close_notify(struct stage_conn *t)
{
	struct conn *c = t->conn;
	unsigned doublings = MIN(t->tries, (unsigned)CLOSE_DOUBLINGS);

	t->last |= (c->flags & CONN_LAST) != 0;
	c->flags &= ~(uint32_t)CONN_LAST;
	if (conn_has_unsent(c)) {
		stage_watch(t);
		return false;
	}
	if (deadline_is_armed(&t->retry))
		return false;
	stat_add(c->worker->stats.sys_other, 1);
	stat_add(c->worker->stats.sys_send, 1);
	if (kernel_close_notify(c->fd) != -EAGAIN || t->tries++ == CLOSE_TRIES)
		return true;
	conn_io_begin(c, &nothing);
	t->retry.due = retry_due;
	worker_arm(c->worker, &t->retry, c->worker->turn.now_ns + (CLOSE_WAIT_NS << doublings));
	return false;
}

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
		k = stage_chunk(&w->pool, &part->opened, STAGE_ROOM);
		if (!k) {
			conn_wait_for_memory(c);
			return;
		}
		room = w->pool.chunk_size - k->used;
		n = tls_library.read(t->session, k->base + k->used, room);
		if (likely(n > 0)) {
			stat_add(w->stats.tls_plain_in, (unsigned)n);
			t->controls = 0;
			stage_append(&w->pool, &c->rx, k, (size_t)n);
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
		if (!stage_close_notify(t))
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
static void count_held(struct stage_conn *t, int sign)
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
		why = stage_read_control(t);
		if (why) {
			stage_fail(t, why);
			c->worker->engine->recv(c, false);
			return;
		}
		stage_closed(t);
	}
	if (!stage_give_kernel(t))
		return;
	count_truncated(t);
	run_service(t);
	stage_end(t);
}

/* The library opens: c->rx has records, except while the service runs. */
static void serve_records(struct stage_conn *t)
{
	struct conn *c = t->conn;

	count_held(t, -1);
	t->in = c->rx;
	c->rx = t->left;
	t->left = (struct bufq){ 0 };
	if ((likely(t->established) || stage_handshake(t)) && stage_give_kernel(t) &&
	    !(t->kernel & KERNEL_RECEIVES))
		stage_serve(t);
	t->left = c->rx;
	c->rx = t->in;
	t->in = (struct bufq){ 0 };
	count_held(t, 1);
}

/* Receives input from before TLS begins, since the engine does not receive for this connection.  If
 * there was some, c runs again, as more may have arrived. */
static void receive_clear(struct conn *c)
{
	struct pool *p = &c->worker->pool;
	struct chunk *k = stage_chunk(p, &worker_part(c->worker)->opened, STAGE_ROOM);
	size_t n;

	if (!k) {
		conn_wait_for_memory(c);
		return;
	}
	n = stage_raw_receive(c, k->base + k->used, p->chunk_size - k->used);
	if (n == 0)
		return;
	stage_append(p, &c->rx, k, n);
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

static int attach_to_kernel(struct conn *c)
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
	rc = stage->kernel ? attach_to_kernel(c) : 0;
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
	count_held(t, -1);
	bufq_clear(p, &t->left);
	bufq_clear(p, &t->plain);
	tls_library.free(t->session);
	free(t->identity);
	free(t);
}

static const char *stage_identity(const struct conn *c)
{
	const struct stage_conn *t = c->stage;

	return t->identity;
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
	s->service.identity = stage_identity;
}
