/* Connections: input, backpressure, and the one place where a connection's fate is decided
 * (conn_run).  Worker's thread only. */
#include "conn.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bulk.h"
#include "engine.h"
#include "log.h"
#include "parse.h"
#include "pressure.h"
#include "slices.h"

/* ---- Timer: idle-timeout, and the service's deadline ----
 *
 * Requests do not move the timer.  A deadline that is cleared or postponed leaves the timer armed,
 * and conn_due() arms it again for the time that is left. */

/* The silence after which a connection is closed, ns; 0: never. */
static uint64_t worker_idle_timeout(const struct worker *w)
{
	if (w->engine->connectionless && !w->options.idle_timeout_ns)
		return WORKER_FORGET_NS;
	return w->options.idle_timeout_ns;
}

/* Called when the timer of c is due, which may be before either of its two reasons.  A connection
 * with I/O in flight at a store counts as active, so it is never closed as idle while its memory is
 * in use.  The timer is armed again for the rest of each time that has not passed; the service's
 * deadline only makes c run, with CONN_DUE. */
static void conn_due(struct timer *t, uint64_t now_ns)
{
	struct conn *c = container_of(t, struct conn, due.timer);
	struct worker *w = c->worker;
	uint64_t timeout = worker_idle_timeout(w);

	if (c->flags & CONN_CLOSING)
		return;
	if (timeout) {
		uint64_t idle_ns = (c->io.count ? now_ns : c->active_ns) + timeout;

		if (w->turn.seen_ns >= idle_ns) {
			conn_close(c, CONN_END_IDLE);
			return;
		}
		worker_arm(w, t, MAX(idle_ns, now_ns + NS_PER_MS));
	}
	if (c->due.ns && now_ns >= c->due.ns) {
		c->due.ns = 0;
		c->flags |= CONN_DUE;
		conn_ready(c);
	} else if (c->due.ns) {
		worker_arm(w, t, c->due.ns);
	}
}

static void conn_arm_first(struct conn *c)
{
	struct worker *w = c->worker;
	uint64_t timeout = worker_idle_timeout(w);

	c->due.timer.due = conn_due;
	if (timeout)
		worker_arm(w, &c->due.timer, c->active_ns + timeout);
	/* A drain accepts from the kernel's queue, and its timer may not be armed any more. */
	if (unlikely(w->drain.on))
		worker_arm(w, &w->drain.timer, 0);
}

/* ---- Setup and teardown ---- */

static void conn_link(struct conn *c)
{
	struct worker *w = c->worker;

	c->next = w->conns;
	if (w->conns)
		w->conns->prev = c;
	w->conns = c;
	stat_add(w->stats.open, 1);
}

static void conn_unlink(struct conn *c)
{
	struct worker *w = c->worker;

	*(c->prev ? &c->prev->next : &w->conns) = c->next;
	if (c->next)
		c->next->prev = c->prev;
}

void conn_log(const struct conn *c, int level, const char *format, ...)
{
	static struct log_limit limits[LOG_DEBUG];
	char peer[ADDRESS_TEXT_MAX], text[CONN_LOG_MAX];
	const struct worker *w = c->worker;
	va_list args;

	if (likely(log_get_level() < level) || (level < LOG_DEBUG && !log_limited(&limits[level])))
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	conn_peer(c, peer);
	log_write(level, "listener '%s': connection %u.%llu from %s: %s", w->listener, w->index,
		  (unsigned long long)c->id, peer, text);
}

static void conn_drop(struct worker *w, int fd)
{
	close(fd);
	stat_add(w->stats.sys_close, 1);
	worker_fd_freed(w);
}

int conn_admit(struct worker *w, int fd, const struct sockaddr_storage *peer)
{
	int rc = w->owner->admit(w, fd, peer);

	if (rc == -EACCES)
		stat_add(w->stats.refused_denied, 1);
	else if (rc < 0)
		stat_add(w->stats.refused_limit, 1);
	else
		stat_add(w->stats.accepted, 1);
	return rc;
}

static int conn_open_service(struct conn *c)
{
	const struct service *service = c->worker->service;

	if (service->state_bytes) {
		c->state = calloc(1, service->state_bytes);
		if (!c->state)
			return -ENOMEM;
	}
	return service->open ? service->open(c) : 0;
}

void conn_close_service(struct conn *c)
{
	const struct service *service = c->worker->service;

	if ((c->flags & CONN_OPEN) && service->close)
		service->close(c);
	if (service->state_bytes)
		free(c->state);
}

/* The connection is on the worker's list before its service and its engine know of it, so that a
 * failure of either ends it by conn_close() like any other connection.  It is put on the ready
 * list in every case: the first run lets a service with SERVICE_SENDS_FIRST send, and frees a
 * connection that has failed. */
int conn_start(struct worker *w, int fd, void *engine_state)
{
	struct conn *c = calloc(1, sizeof(*c));
	int rc;

	if (!c) {
		stat_add(w->stats.closed_error, 1);
		w->owner->release(w);
		return -ENOMEM;
	}
	c->worker = w;
	c->fd = fd;
	c->flags =
		(w->engine->keep_open ? CONN_FRESH : 0) |
		((w->service->flags & SERVICE_SENDS_FIRST) && !w->engine->messages ? CONN_WATCH_TX
										   : 0);
	c->engine_state = engine_state;
	c->id = ++w->next_conn_id;
	c->opened_ns = c->active_ns = clock_ns(); /* that of the turn is the last one's */
	conn_link(c);
	conn_arm_first(c);
	conn_log(c, LOG_DEBUG, "accepted");
	rc = conn_open_service(c);
	if (rc == 0) {
		c->flags |= CONN_OPEN;
		rc = w->engine->open(c);
	}
	if (rc < 0)
		conn_failed(c, -rc);
	conn_ready(c);
	return 0;
}

void conn_new(struct worker *w, int fd)
{
	if (conn_admit(w, fd, NULL) < 0 || conn_start(w, fd, NULL) < 0)
		conn_drop(w, fd);
}

#define COUNTER(name) offsetof(struct stats, name)
static const struct {
	const char *text;
	size_t counter; /* offset in struct stats */
	int level;      /* of the log */
} conn_ends[] = {
	[CONN_END_PEER] = { "ended by the client", COUNTER(closed_peer), LOG_DEBUG },
	[CONN_END_RESET] = { "reset by the client", COUNTER(closed_reset), LOG_DEBUG },
	[CONN_END_IDLE] = { "closed: idle-timeout", COUNTER(closed_idle), LOG_DEBUG },
	[CONN_END_PROTOCOL] = { "closed: protocol error", COUNTER(closed_protocol), LOG_DEBUG },
	[CONN_END_OVERRUN] = { "ended by the transport: its messages had used up all receives; "
			       "fewer of them at a time, more `buffers`, or a RoCE device",
			       COUNTER(closed_overrun), LOG_WARNING },
	[CONN_END_DRAIN] = { "closed: draining", COUNTER(closed_drain), LOG_DEBUG },
	[CONN_END_ERROR] = { "closed: an error of this host", COUNTER(closed_error), LOG_DEBUG },
};

static void conn_count_end(const struct conn *c)
{
	char *stats = (char *)&c->worker->stats;

	stat_add(*(_Atomic uint64_t *)(void *)(stats + conn_ends[c->end].counter), 1);
}

/* Called by conn_ran() alone, when no pointer to c can come back: nothing of it is in flight,
 * and it is not on the ready list.  The service ends first, as its state may refer to views in
 * the queues; the descriptor is closed last: its number must not be given to another
 * connection while anything names c. */
static void conn_free(struct conn *c)
{
	struct worker *w = c->worker;

	conn_close_service(c);
	bufq_clear(&w->pool, &c->rx);
	bufq_clear(&w->pool, &c->tx);
	bufq_clear(&w->pool, &c->sending);
	worker_count_chunks(w);
	conn_count_end(c);
	conn_log(c, conn_ends[c->end].level, "%s, %llu bytes in, %llu out", conn_ends[c->end].text,
		 (unsigned long long)c->bytes_in, (unsigned long long)c->bytes_out);
	conn_unlink(c);
	deadline_drop(&w->deadlines, &c->due.timer);
	if (unlikely(w->bulk.busy == c))
		bulk_forget(w);
	if (w->engine->release) {
		w->engine->release(c);
	} else {
		stat_add(w->stats.sys_close, 1);
		close(c->fd);
	}
	w->owner->release(w);
	worker_fd_freed(w);
	/* The counter comes last: a reader that sees it decreased finds everything released. */
	stat_add(w->stats.open, UINT64_C(-1));
	free(c);
}

/* Begins the end of c: from now on no operation starts, and those in flight complete soon.  c is
 * freed by the conn_ran() that finds nothing in flight. */
static void conn_stop(struct conn *c, enum conn_end end)
{
	c->flags |= CONN_CLOSING;
	c->end = (uint8_t)end;
	conn_drop_grant(c);
	pressure_end_wait(c);
	c->worker->engine->close(c);
}

void conn_close(struct conn *c, enum conn_end end)
{
	if (c->flags & CONN_CLOSING)
		return;
	conn_stop(c, end);
	conn_ready(c);
}

void conn_failed(struct conn *c, int error)
{
	const struct service *service = c->worker->service;
	bool reset = error == ECONNRESET || error == EPIPE || error == ETIMEDOUT ||
		     error == ENOTCONN || error == EHOSTUNREACH || error == ENETUNREACH;

	if (service->failed && service->failed(c, error))
		return;
	conn_close(c, reset ? CONN_END_RESET : CONN_END_ERROR);
}

/* ---- Input ---- */

/* Input that follows the last view in memory only makes that view longer; small input
 * is copied behind it.  Otherwise a peer that sends single bytes would hold a whole
 * chunk with each of them. */
static inline bool conn_input_append(struct conn *c, struct chunk *k, const uint8_t *data,
				     uint32_t len)
{
	struct view *v = c->rx.tail;
	uint8_t *end = v->data + v->len;

	if (v->chunk == k && end == data) {
		v->len += len;
		c->rx.bytes += len;
		return true;
	}
	if (len > CONN_COPY_MAX || v->chunk->refs != 1 ||
	    end + len > v->chunk->base + c->worker->pool.chunk_size)
		return false;
	memcpy(end, data, len);
	v->len += len;
	c->rx.bytes += len;
	stat_add(c->worker->stats.bytes_copied, len);
	return true;
}

void conn_input_more(struct conn *c, struct chunk *k, uint8_t *data, uint32_t len)
{
	if (c->worker->engine->messages || !c->rx.tail || !conn_input_append(c, k, data, len))
		bufq_push(&c->rx, view_new(&c->worker->pool, k, data, len));
	conn_ready(c);
}

void conn_reserve_used(struct conn *c, struct view *reserve, size_t bytes)
{
	struct chunk *k = reserve->chunk;

	if (bytes > 0)
		conn_input(c, k, reserve->data, (uint32_t)bytes);
	/* The view at the end of the used part returns its unused bytes to the
	 * chunk, for the next view. */
	if (reserve->data + reserve->len == k->base + k->used)
		k->used -= reserve->len - (uint32_t)bytes;
	view_free(&c->worker->pool, reserve);
}

void conn_eof(struct conn *c)
{
	c->flags |= CONN_EOF;
	conn_drop_grant(c);
	conn_ready(c);
}

/* ---- Scheduling ---- */

bool conn_await_input(struct conn *c, uint64_t timeout_ns, uint64_t bytes)
{
	bool runs = c->due.ns || conn_deadline_passed(c);

	if (runs && c->bytes_in < c->due.restart_bytes_in &&
	    !(c->flags & (CONN_RECV_OFF | CONN_NO_MEMORY)))
		return !conn_deadline_passed(c);
	c->due.restart_bytes_in = c->bytes_in + bytes;
	conn_set_deadline(c, c->worker->turn.now_ns + timeout_ns);
	return true;
}

/* Is the input, of a byte stream, little enough to be copied rather than left in its chunk? */
static bool conn_holds_little(const struct conn *c)
{
	return c->rx.bytes <= CONN_COPY_MAX && !c->worker->engine->messages;
}

/* Moves a byte stream's input, at most a chunk, into one view of the scratch chunk.  False: the
 * pool is exhausted. */
static bool conn_gather(struct conn *c)
{
	struct worker *w = c->worker;
	size_t bytes = c->rx.bytes;
	struct view *v = conn_room(w, 0, bytes, 1);

	if (!v)
		return false;
	bufq_read(&w->pool, &c->rx, v->data, bytes);
	bufq_push(&c->rx, v);
	stat_add(w->stats.bytes_copied, bytes);
	return true;
}

/* Would freeing c's first view free memory that others wait for?  It would if the view is alone in
 * its chunk, or if the chunk is a page of an area. */
static bool conn_pins(const struct conn *c)
{
	const struct chunk *k = c->rx.head->chunk;

	return k->refs == 1 || (k->id & CHUNK_OF_AREA);
}

void conn_compact(struct conn *c)
{
	const struct worker *w = c->worker;

	if (!c->rx.head)
		return;
	if (c->rx.bytes <= w->pool.chunk_size / 4 && conn_pins(c) && !w->engine->messages)
		conn_gather(c);
	conn_ready(c);
}

void conn_wait_to_receive(struct conn *c)
{
	pressure_begin_wait(c, CONN_NO_INPUT);
	conn_compact(c);
}

/* Joins input that arrived in small pieces into one view: a small pool allows a connection few
 * views, and the service may still wait for more bytes.  True: joined. */
static bool conn_pack(struct conn *c)
{
	if (c->rx.views < 2 || !conn_holds_little(c))
		return false;
	if (conn_gather(c))
		return true;
	conn_wait_for_memory(c);
	return false;
}

__attribute__((noinline)) static void conn_pause(struct conn *c)
{
	if (conn_pack(c) && !conn_is_full(c))
		return;
	stat_add(c->worker->stats.throttled, 1);
	c->flags |= CONN_RECV_OFF;
	conn_drop_grant(c);
	c->worker->engine->recv(c, false);
}

static void conn_resume(struct conn *c)
{
	const struct worker *w = c->worker;

	conn_pack(c);
	if (conn_held_bytes(c) > w->limits.held_max / 2 ||
	    conn_held_views(c) > w->limits.views_max / 2)
		return;
	c->flags &= ~(uint32_t)CONN_RECV_OFF;
	if (!(c->flags & CONN_EOF))
		w->engine->recv(c, true);
}

bool conn_is_filled(const struct conn *c)
{
	return conn_held_bytes(c) >= c->worker->limits.held_max ||
	       conn_held_views(c) >= c->worker->limits.views_max;
}

/* Everything received before the peer's FIN has been answered, and the
 * service has nothing left to do. */
static bool conn_finished(const struct conn *c)
{
	return !c->tx.head && !conn_in_flight(c) && !(c->flags & (CONN_NO_MEMORY | CONN_READY));
}

static void conn_keep_open(struct conn *c)
{
	c->flags &= ~(uint32_t)CONN_FRESH;
	c->worker->engine->keep_open(c);
}

/* Decides the fate of a connection that has run: it continues, is paused, or comes to its end. */
__attribute__((noinline)) static void conn_ran(struct conn *c)
{
	if (unlikely((c->flags & CONN_CLOSING) && c->slices.first))
		slices_drop(c);
	if (!(c->flags & CONN_CLOSING)) {
		if (c->flags & CONN_RECV_OFF)
			conn_resume(c);
		else if (conn_is_full(c))
			conn_pause(c);
		if (((c->flags & CONN_EOF) && conn_finished(c)) ||
		    ((c->flags & CONN_LAST) && !conn_has_unsent(c) && c->io.count == 0))
			conn_stop(c, c->end); /* CONN_END_PEER, or as engine or service have set */
		else if (c->flags & CONN_FRESH)
			conn_keep_open(c);
		pressure_update_wait(c);
	}
	/* Not freed while c is on the ready list, which is linked through c: the turn that takes c
	 * from the list runs it again, and that run frees it. */
	if ((c->flags & CONN_CLOSING) && !conn_in_flight(c) && !(c->flags & CONN_READY))
		conn_free(c);
}

void conn_run(struct conn *c)
{
	const struct worker *w = c->worker;

	if (likely(!(c->flags & (CONN_CLOSING | CONN_OWN_RUN)))) {
		c->active_ns = w->turn.now_ns;
	} else if (c->flags & CONN_CLOSING) {
		conn_ran(c);
		return;
	} else {
		c->flags &= ~(uint32_t)CONN_OWN_RUN;
	}
	w->service->run(c);
	if (c->tx.head && !(c->flags & CONN_CLOSING))
		w->engine->flush(c);
	if (unlikely(c->flags & (CONN_CLOSING | CONN_EOF | CONN_RECV_OFF | CONN_LAST | CONN_FRESH |
				 CONN_NO_MEMORY)))
		conn_ran(c);
	else if (unlikely(conn_is_full(c)))
		conn_pause(c);
}
