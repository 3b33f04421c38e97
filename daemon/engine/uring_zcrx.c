/* Engine `io_uring` with zero-copy receive (zcrx): data is received into an area of pages instead
 * of the pool.
 *
 * It is an engine of its own with the same name (registry/registry.c), so that other listeners
 * execute none of this code.  It sends as `io_uring` does.  It makes no plain receive calls, which
 * cannot read data that a device has stored in the area.  A receive has many completions, each of
 * at most a page.  It ends when it has received the bytes that it was armed for, with a completion
 * of result 0.  A FIN also has result 0, so received bytes are counted to distinguish the two.  A
 * receive also ends when the kernel finds no free page.
 *
 * The area is not the pool: the kernel may write into each free page of it.  See area.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "area.h"
#include "ring_keys.h"
#include "uring.h"
#include "uring_compat.h"

/* Features that this engine cannot use, for the reasons above. */
#define ZCRX_WITHOUT                                                                               \
	(FEATURE_BIT(buffer_ring) | FEATURE_BIT(multishot_recv) | FEATURE_BIT(recv_bundle) |       \
	 FEATURE_BIT(eager_io) | FEATURE_BIT(silent_send))

struct uring_zcrx {
	struct area area;
	uint64_t
		last_check_ns; /* when the core last checked waiting connections: zcrx_relieves() */
};

static struct uring_zcrx *zcrx_of(const struct worker *w)
{
	return ((struct uring *)w->engine_state)->zcrx;
}

/* ---- Pages ---- */

static void zcrx_give(void *ring, uint64_t offset)
{
	ring_zcrx_give(ring, offset);
}

static void zcrx_set_free(struct worker *w, uint32_t pages)
{
	w->area.free = pages;
	atomic_store_explicit(&w->stats.zcrx_pages_free, pages, memory_order_relaxed);
}

/* Returns pages without a view to the kernel.  False: there were none. */
static bool zcrx_collect(struct worker *w)
{
	struct uring_zcrx *z = zcrx_of(w);

	if (area_collect(&z->area, zcrx_give, ring_of(w)) == 0)
		return false;
	ring_zcrx_flush(ring_of(w));
	zcrx_set_free(w, area_free(&z->area));
	return true;
}

/* ---- Receiving ---- */

/* Bytes that a receive may bring: a turn's share, and at most a quarter of the pages, so that one
 * connection does not use up the area before its service has run. */
static uint32_t zcrx_share(const struct worker *w)
{
	size_t pages = MAX(w->area.free / 4, 1U);

	return (uint32_t)MIN(worker_share(w), pages * zcrx_of(w)->area.page_bytes);
}

static void zcrx_arm(struct conn *c)
{
	struct worker *w = c->worker;
	struct uring *u = w->engine_state;
	struct io_uring_sqe *sqe;
	uint32_t bytes;

	if (c->flags & (URING_RECV_ARMED | CONN_CLOSING | CONN_EOF))
		return;
	conn_drop_grant(c); /* a chunk of the pool, into which this engine does not receive */
	if (w->area.free == 0 && !zcrx_collect(w)) {
		conn_wait_to_receive(c);
		return;
	}
	bytes = zcrx_share(w);
	sqe = ring_sqe(&u->ring);
	io_uring_prep_rw(NB_OP_RECV_ZC, sqe, c->fd, NULL, bytes, 0);
	sqe->ioprio = IORING_RECV_MULTISHOT;
	sqe->file_index = u->ring.zcrx->id; /* the kernel has another name for it: zcrx_ifq_idx */
	ring_op(sqe, &c->recv_op);
	c->recv_left = bytes;
	c->flags |= URING_RECV_ARMED;
	c->pending++;
}

/* Copies input of few bytes into a chunk that many connections share, and gives its page back.
 * False: the pool is exhausted. */
static bool zcrx_input_copy(struct conn *c, const uint8_t *data, uint32_t bytes)
{
	struct worker *w = c->worker;
	struct view *v = conn_room(w, 0, bytes, 1);

	if (!v)
		return false;
	memcpy(v->data, data, bytes);
	stat_add(w->stats.bytes_copied, bytes);
	conn_input(c, v->chunk, v->data, bytes);
	view_free(&w->pool, v);
	return true;
}

static void zcrx_received(struct conn *c, uint32_t bytes)
{
	struct worker *w = c->worker;
	struct area *a = &zcrx_of(w)->area;
	uint64_t offset = ring_of(w)->zcrx->offset;
	struct chunk *k = area_filled(a, offset);
	uint8_t *data = k->base + offset % a->page_bytes;

	zcrx_set_free(w, MIN(w->area.free, area_free(a)));
	c->recv_left -= MIN(c->recv_left, bytes);
	stat_add(w->stats.zcrx_bytes, bytes);
	if (!ring_of(w)->zcrx->copied)
		stat_add(w->stats.zcrx_copied, bytes);
	if (bytes > CONN_COPY_MAX || !zcrx_input_copy(c, data, bytes))
		conn_input(c, k, data, bytes);
}

/* The kernel had no free page.  Received data stays in the socket. */
static void zcrx_found_none(struct conn *c)
{
	struct worker *w = c->worker;

	stat_add(w->stats.zcrx_out_of_pages, 1);
	if (!zcrx_collect(w))
		zcrx_set_free(w, 0);
	ring_of(w)->quiet = 0; /* each completed send frees pages */
}

static void zcrx_ended(struct conn *c, int res)
{
	c->pending--;
	c->flags &= ~(uint32_t)URING_RECV_ARMED;
	uring_need_completion(c);
	conn_ready(c);
	if (res == -ENOMEM)
		zcrx_found_none(c);
	if (res == 0 && c->recv_left > 0)
		conn_eof(c);
	/* ENOSPC: the queue of completions was full, and has been reaped since. */
	else if (res < 0 && res != -ENOMEM && res != -ENOSPC && res != -ECANCELED)
		conn_failed(c, -res);
	else if (!(c->flags & CONN_RECV_OFF))
		zcrx_arm(c);
}

static void zcrx_recv_done(struct op *op, int res, uint32_t flags)
{
	struct conn *c = container_of(op, struct conn, recv_op);

	if (likely(flags & IORING_CQE_F_MORE))
		zcrx_received(c, (uint32_t)res);
	else
		zcrx_ended(c, res);
}

static void zcrx_recv(struct conn *c, bool on)
{
	if (on)
		zcrx_arm(c);
	else
		uring_recv_stop(c);
}

/* ---- The engine ---- */

/* Connections wait for pages: may one of them receive in this turn?  The kernel may hold pages for
 * data in sockets, and does not report when one is free again.  So one connection tries to receive
 * each time the core checks the waiting ones. */
static bool zcrx_relieves(struct worker *w)
{
	struct uring_zcrx *z = zcrx_of(w);
	bool found = zcrx_collect(w);

	if (!found && w->area.free == 0 && z->last_check_ns != w->pressure.next_check_ns) {
		zcrx_set_free(w, 1);
		found = true;
	}
	z->last_check_ns = w->pressure.next_check_ns;
	return found;
}

/* In this turn a connection may hold views in a quarter of the free pages, two at least: the pool's
 * bound of views is for chunks.  That of bytes stays. */
static void zcrx_set_limits(struct worker *w)
{
	w->limits.views_max = MAX(w->area.free / 4, 2U);
	w->limits.views_few = MIN(w->limits.views_max, w->limits.held_max / w->pool.chunk_size);
}

/* One io_uring_enter per turn, as uring_wait() makes.  Its sends complete as usual: what silent
 * ones save shows with small requests, which gain nothing from an area. */
static void zcrx_wait(struct worker *w, bool block)
{
	struct uring *u = w->engine_state;
	struct ring *r = &u->ring;

	if (unlikely(w->pressure.waiting))
		block &= !zcrx_relieves(w);
	else if (unlikely(area_is_due(&u->zcrx->area)))
		zcrx_collect(w);
	if (unlikely(w->turn.timing) && r->quiet)
		uring_submit_and_time(u);
	if (ring_ready(r)) {
		ring_catch_up(r);
	} else {
		ring_wait(r, block);
		if (!block)
			ring_catch_up(r);
	}
	worker_awake(w);
	ring_reap_mixed(r);
	zcrx_set_limits(w);
}

/* Updates the numbers of free pages and of copies.  A page counts as free only after zcrx_collect()
 * has found it without a view.  The kernel counts the copies of a device's traffic. */
static void zcrx_flush_counters(struct worker *w)
{
	const uint64_t *copied = ring_of(w)->zcrx->copied;

	zcrx_collect(w);
	if (copied)
		atomic_store_explicit(&w->stats.zcrx_copied,
				      __atomic_load_n(copied, __ATOMIC_RELAXED),
				      memory_order_relaxed);
}

/* Data that waits in a socket holds pages of a device, which then drops the packets of all other
 * clients: so all sockets together may hold half of the area.  The kernel doubles the number that
 * it is given. */
static void zcrx_bound_socket(const struct conn *c)
{
	const struct worker *w = c->worker;
	int bytes = (int)(ring_area_bytes(&w->options) / 4 / MAX(w->options.peers_max, 1U));

	stat_add(c->worker->stats.sys_other, 1);
	setsockopt(c->fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

static int zcrx_open(struct conn *c)
{
	c->recv_op.done = zcrx_recv_done;
	if (ring_of(c->worker)->zcrx->copied)
		zcrx_bound_socket(c);
	return uring_open(c);
}

static void zcrx_keep_open(struct conn *c)
{
	if (!(c->flags & CONN_RECV_OFF)) /* conn_resume() arms it */
		zcrx_arm(c);
}

static void zcrx_fini(struct worker *w)
{
	struct uring_zcrx *z = zcrx_of(w);

	uring_fini(w);
	z->area.pages = NULL; /* the worker's: connections that were abandoned still have views */
	area_fini(&z->area);
	free(z);
}

static bool zcrx_suits(const struct worker_options *options)
{
	return ring_wants_area(options) && !options->datagrams;
}

static int zcrx_init(struct worker *w, struct reason *reason)
{
	struct uring_zcrx *z = calloc(1, sizeof(*z));
	const struct ring_zcrx *ring;
	struct uring *u;
	int rc;

	if (!z)
		return reason_set(reason, -ENOMEM, "io_uring: no memory");
	w->options.features_off |= ZCRX_WITHOUT;
	rc = uring_init(w, reason);
	if (rc < 0) {
		free(z);
		return rc;
	}
	u = w->engine_state;
	u->zcrx = z;
	ring = u->ring.zcrx;
	rc = area_init(&z->area, ring->area, (uint32_t)(ring->area_bytes / ring->page_bytes),
		       ring->page_bytes);
	if (rc < 0) { /* it has left nothing behind */
		zcrx_fini(w);
		return reason_set(reason, rc,
				  "no memory for the pages of zero-copy-receive; lower `buffers`");
	}
	w->area = (struct worker_area){ .pages = z->area.count, .chunks = z->area.pages };
	atomic_store_explicit(&w->stats.zcrx_pages, z->area.count, memory_order_relaxed);
	zcrx_set_free(w, z->area.count);
	atomic_store(&w->counters_lag, true); /* see zcrx_flush_counters() */
	worker_feature(w, FEATURE_zcrx);
	return 0;
}

const struct engine engine_uring_zcrx = {
	.name = "io_uring",
	.transport = &transport_tcp,
	.suits = zcrx_suits,
	.sample_turns = 32,
	.features = (RING_FEATURES & ~FEATURE_BIT(sqpoll)) | FEATURE_BIT(rcvlowat) |
		    FEATURE_BIT(send_zc) | FEATURE_BIT(zcrx),
	.init = zcrx_init,
	.fini = zcrx_fini,
	.watch_listener = ring_watch_listener,
	.watch = ring_watch,
	.wait = zcrx_wait,
	.open = zcrx_open,
	.keep_open = zcrx_keep_open,
	.recv = zcrx_recv,
	.flush = uring_flush,
	.close = uring_close,
	.flush_counters = zcrx_flush_counters,
};
