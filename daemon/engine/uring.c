/* Engine `io_uring`: completions (proactor).  Multishot accept and receive into a ring of provided
 * buffers, one send in flight per connection, one io_uring_enter per turn that submits the sends,
 * waits, and runs the kernel's deferred work.
 *
 * Life of a buffer: uring_refill() takes a chunk from the pool and posts it; the kernel then holds
 * a reference.  A completion names the chunk that was filled, and conn_input() makes a view of the
 * data, which has a reference of its own.  The kernel's reference is dropped by
 * uring_retire_buffer() when the kernel will write no more into the chunk; the chunk returns to the
 * pool when the last view in it has ended, which may be before or after that.
 *
 * Only some chunks are posted to the kernel, so that received data goes to memory that is in the
 * cache.  With incremental buffers (Linux 6.12) many receives share a chunk, so few are enough. */
#include <assert.h>
#include <errno.h>
#include <poll.h>

#include "readiness.h"
#include "ring_keys.h"
#include "sockaddr.h"
#include "uring.h"
#include "uring_compat.h"

static_assert((int)URING_END_SEEN < (int)READINESS_FLAGS, "flags overlap those of readiness.c");

/* ---- Provided buffers ---- */

static struct chunk *uring_chunk(const struct worker *w, uint32_t completion_flags)
{
	return &w->pool.chunks[completion_flags >> IORING_CQE_BUFFER_SHIFT];
}

/* Drops the kernel's reference to a posted chunk, which is full or consumed. */
static void uring_retire_buffer(struct worker *w, struct chunk *k)
{
	w->pool_posted--;
	chunk_put(&w->pool, k);
}

/* A completion has named k.  `bytes` were received into it and, for a bundle, into the chunks
 * posted after it; 0: none were.  `more`: the kernel will fill the rest of the last of these
 * chunks.  Only the flag IORING_CQE_F_BUF_MORE shows this: the kernel may retire a chunk that it
 * has not filled.
 *
 * Buffers that are not incremental are filled from their beginning, up to the length in the ring:
 * Linux 6.10 to 6.15 shorten the last one of a bundle there.
 *
 * With incremental buffers a completion does not contain the position in k.  It is k->used, if
 * completions arrive in the order in which the receives filled the buffer.  Such buffers are used
 * only where the kernel keeps that order: see uring_keeps_order(). */
static void uring_received(struct conn *c, struct chunk *k, uint32_t bytes, bool more)
{
	struct worker *w = c->worker;
	const struct uring *u = w->engine_state;
	const struct io_uring_buf *bufs = u->buf_ring->bufs;
	uint32_t at = u->posted_at[k->id];

	assert(!u->bundle || bufs[at].bid == k->id); /* not written again: see u->ordered */
	for (;; k = &w->pool.chunks[bufs[++at & u->buf_mask].bid]) {
		uint32_t room =
			u->incremental ? w->pool.chunk_size - k->used : bufs[at & u->buf_mask].len;
		uint32_t n = MIN(bytes, room);
		uint8_t *data = k->base + k->used;

		k->used += n;
		bytes -= n;
		if (n > 0)
			conn_input(c, k, data, n);
		if (bytes == 0)
			break;
		uring_retire_buffer(w, k);
	}
	if (!more)
		uring_retire_buffer(w, k);
}

/* ---- A disconnection that no receive reports ----
 *
 * When data and a reset arrive together, a multishot receive (seen on Linux 6.18) delivers the
 * data, and then waits for an event that has already happened.  A service that answers each input
 * notices the reset by a failed send; for other services a poll waits for the reset.
 *
 * On a Unix socket the same happens with data and a FIN. It also happens on any socket, with all
 * services, if the kernel does not defer the ring's work until the worker enters the ring.  In
 * these cases the poll waits for the FIN as well.  After it each receive is a single one, which
 * finds the FIN behind the remaining data.  A new multishot receive could miss the FIN again, if it
 * first had to wait for chunks. */

static void uring_recv(struct conn *c, bool on);

static void uring_reset_done(struct op *op, int res, uint32_t flags)
{
	struct conn *c = container_of(op, struct conn, reset_op);

	(void)flags;
	c->pending--;
	c->flags &= ~(uint32_t)URING_RESET_ARMED;
	uring_need_completion(c);
	conn_ready(c);
	/* Not POLLHUP, a Unix peer's close, which is received in order. */
	if (res > 0 && (res & POLLERR))
		conn_failed(c, ECONNRESET);
	else if (res > 0 && !(c->flags & CONN_CLOSING)) {
		c->flags |= URING_END_SEEN;
		uring_recv(c, false); /* its end arms the next one */
	}
}

static void uring_reset_arm(struct conn *c, bool fin)
{
	struct uring *u = c->worker->engine_state;
	struct io_uring_sqe *sqe = ring_sqe(&u->ring);

	c->reset_op.done = uring_reset_done;
	io_uring_prep_poll_add(sqe, c->fd, POLLERR | POLLHUP | (fin ? POLLRDHUP : 0));
	ring_op(sqe, &c->reset_op);
	c->flags |= URING_RESET_ARMED;
	c->pending++;
}

static void uring_reset_disarm(struct conn *c)
{
	if (c->flags & URING_RESET_ARMED)
		ring_cancel(ring_of(c->worker), &c->reset_op);
}

/* ---- Receiving ---- */

static void uring_recv_done(struct op *op, int res, uint32_t flags);
static void uring_raw_done(struct op *op, int res, uint32_t flags);
static void uring_recv_ended(struct conn *c, int res, uint32_t flags);

/* The completion of a receive into reserved memory, the view in c->engine_state. */
static void uring_reserve_done(struct op *op, int res, uint32_t flags)
{
	struct conn *c = container_of(op, struct conn, recv_op);

	conn_reserve_used(c, c->engine_state, (size_t)MAX(res, 0));
	uring_recv_ended(c, res, flags);
}

/* Prepares a receive of a connection that waited for a chunk, into memory reserved for it.  It must
 * not keep that memory while the client is silent: MSG_DONTWAIT ends it at once if the socket is
 * empty.  Without a ring of provided buffers every receive has memory of its own, and waits. */
static void uring_reserve_prep(struct conn *c, struct io_uring_sqe *sqe)
{
	const struct uring *u = c->worker->engine_state;
	const struct view *v = c->engine_state;

	io_uring_prep_recv(sqe, c->fd, v->data, v->len, u->buf_ring ? MSG_DONTWAIT : 0);
}

/* Does c use single receives instead of a multishot one?  A single receive does not wait
 * (MSG_DONTWAIT): a poll waits before it.  When a waiting receive is woken often without data, as
 * by urgent bytes of TCP, the kernel passes it to a thread of its own (seen on Linux 6.18).  That
 * thread would keep a whole chunk of the shared buffers for as long as the client is silent. */
static bool uring_receives_singly(const struct conn *c)
{
	const struct uring *u = c->worker->engine_state;

	return (c->flags & (URING_LIMITED | URING_END_SEEN)) || !u->multishot;
}

/* Prepares a receive into provided buffers: a multishot one, or a single one of a share of the
 * turn.
 *
 * IORING_RECVSEND_POLL_FIRST has the kernel wait for an event before it tries to receive.  It saves
 * a futile attempt where the socket is known to be empty.  While other connections wait for memory,
 * it also puts this connection behind them: input that is already in the socket would otherwise be
 * received within the submission, before those that wait longer are served. */
static void uring_recv_prep(struct conn *c, struct io_uring_sqe *sqe, enum uring_input input)
{
	const struct uring *u = c->worker->engine_state;
	int flags = c->flags & CONN_DROPS ? MSG_TRUNC : 0;
	bool bundle;

	if (unlikely(uring_receives_singly(c))) {
		bundle = u->bundle;
		io_uring_prep_recv(sqe, c->fd, NULL, bundle ? worker_share(c->worker) : 0,
				   flags | MSG_DONTWAIT);
	} else {
		bundle = u->multishot_bundle;
		io_uring_prep_recv_multishot(sqe, c->fd, NULL, 0, flags);
		if (input == URING_INPUT_NONE || c->worker->pressure.first)
			sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
	}
	sqe->ioprio |= (uint16_t)(bundle ? NB_RECVSEND_BUNDLE : 0);
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = URING_BUF_GROUP;
}

/* Awaits input that is not received yet; done() runs then. */
static void uring_await_input(struct conn *c, void (*done)(struct op *op, int res, uint32_t flags))
{
	struct uring *u = c->worker->engine_state;
	struct io_uring_sqe *sqe = ring_sqe(&u->ring);

	c->recv_op.done = done;
	io_uring_prep_poll_add(sqe, c->fd, POLLIN);
	ring_op(sqe, &c->recv_op);
	c->flags |= URING_RECV_ARMED;
	c->pending++;
}

static void uring_readable(struct op *op, int res, uint32_t flags);

static void uring_recv_arm(struct conn *c, enum uring_input input)
{
	const uint32_t never = URING_RECV_ARMED | CONN_CLOSING | CONN_EOF;
	struct uring *u = c->worker->engine_state;
	struct view *reserve = NULL;
	struct io_uring_sqe *sqe;

	if (c->flags & (never | CONN_RAW)) {
		if (!(c->flags & never)) /* the stage receives */
			uring_await_input(c, uring_raw_done);
		return;
	}
	if (unlikely(!u->buf_ring || (c->flags & CONN_GRANTED))) {
		reserve = conn_reserve(c);
		if (!reserve && !u->buf_ring) {
			conn_wait_to_receive(c);
			return;
		}
	}
	if (!reserve && input != URING_INPUT_WAITS && unlikely(uring_receives_singly(c))) {
		uring_await_input(c, uring_readable);
		return;
	}
	c->engine_state = reserve;
	c->recv_op.done = likely(!reserve) ? uring_recv_done : uring_reserve_done;
	sqe = ring_sqe(&u->ring);
	if (unlikely(reserve))
		uring_reserve_prep(c, sqe);
	else
		uring_recv_prep(c, sqe, input);
	ring_op(sqe, &c->recv_op);
	c->flags |= URING_RECV_ARMED;
	c->pending++;
}

/* The kernel says with a receive's completion whether it has left input in the socket.  While the
 * low-water mark is raised, such input waits for more. */
static enum uring_input uring_input_left(const struct conn *c, int res, uint32_t flags)
{
	if (res == -EAGAIN)
		return URING_INPUT_NONE;
	return (flags & IORING_CQE_F_SOCK_NONEMPTY) && !(c->flags & CONN_RCVLOWAT)
		       ? URING_INPUT_WAITS
		       : URING_INPUT_UNKNOWN;
}

/* A receive, into provided buffers or its own memory, has ended: no completion of it follows.  It
 * is armed again from here only, and by uring_recv() when input was off, so at most one is in
 * flight.  -ECANCELED (input was paused, or the receive is to be replaced) and -EAGAIN
 * (MSG_DONTWAIT found no bytes) end it without an error. */
static void uring_recv_ended(struct conn *c, int res, uint32_t flags)
{
	struct worker *w = c->worker;
	struct uring *u = w->engine_state;

	c->pending--;
	c->flags &= ~(uint32_t)URING_RECV_ARMED;
	uring_need_completion(c);
	conn_ready(c);
	if (res == 0) {
		uring_reset_disarm(c);
		conn_eof(c);
	} else if (res == -ENOBUFS) {
		/* More arrived in one turn than was posted: post more, and
		 * continue when chunks are free. */
		u->posted_max = MIN(u->posted_max * 2, u->buf_entries);
		u->ring.quiet = 0; /* each completed send frees chunks */
		conn_wait_to_receive(c);
	} else if (res < 0 && res != -ECANCELED && res != -EAGAIN) {
		conn_failed(c, -res);
	} else if (!(c->flags & CONN_RECV_OFF)) {
		uring_recv_arm(c, uring_input_left(c, res, flags));
	}
}

/* A poll of uring_await_input() has ended: runs c. */
static void uring_poll_ended(struct conn *c)
{
	c->pending--;
	c->flags &= ~(uint32_t)URING_RECV_ARMED;
	uring_need_completion(c);
	conn_ready(c);
}

/* The next poll is submitted when the stage has run. */
static void uring_raw_done(struct op *op, int res, uint32_t flags)
{
	struct conn *c = container_of(op, struct conn, recv_op);

	(void)res, (void)flags;
	uring_poll_ended(c);
	if (!(c->flags & (CONN_RECV_OFF | CONN_NO_MEMORY)))
		uring_recv_arm(c, URING_INPUT_UNKNOWN);
}

/* There is input for a single receive, which runs c when it completes. res < 0: the poll was
 * cancelled, because input was paused or the receive is to be replaced. */
static void uring_readable(struct op *op, int res, uint32_t flags)
{
	struct conn *c = container_of(op, struct conn, recv_op);

	(void)flags;
	if (res < 0 && res != -ECANCELED) {
		uring_poll_ended(c);
		conn_failed(c, -res);
		return;
	}
	if (res < 0 || (c->flags & (CONN_RECV_OFF | CONN_CLOSING))) {
		uring_poll_ended(c);
	} else {
		c->pending--;
		c->flags &= ~(uint32_t)URING_RECV_ARMED;
	}
	if (!(c->flags & CONN_RECV_OFF))
		uring_recv_arm(c, res < 0 ? URING_INPUT_UNKNOWN : URING_INPUT_WAITS);
}

/* Cancels the receive.  The cancel is an operation with a completion of its own, which names c by
 * control_op: both count in c->pending, and they may complete in either order. */
static void uring_recv_cancel(struct conn *c)
{
	struct uring *u = c->worker->engine_state;
	struct io_uring_sqe *sqe = ring_sqe(&u->ring);

	io_uring_prep_cancel(sqe, &c->recv_op, 0);
	ring_op(sqe, &c->control_op);
	c->pending++;
}

/* Limits a connection that receives much.  A multishot receive can fill all posted chunks, one by
 * one unless it is of bundles.  A connection that exceeds its share of a turn, or URING_MUCH one by
 * one, gets one receive of its share per turn, a bundle, until it receives much less. */
static void uring_limit_receives(struct conn *c, size_t bytes, bool multishot)
{
	const struct worker *w = c->worker;
	const struct uring *u = w->engine_state;
	size_t share = worker_share(w),
	       much = u->multishot_bundle ? share : MIN(share, (size_t)URING_MUCH);

	if (!multishot) {
		if (bytes < much / 4)
			c->flags &= ~(uint32_t)URING_LIMITED;
	} else if (u->bundle && c->rx.bytes > much && !(c->flags & URING_LIMITED)) {
		c->flags |= URING_LIMITED;
		uring_recv_cancel(c); /* its end arms the next one */
	}
}

/* Handles the rarer completions: the last of a multishot receive, a filled chunk, an error. */
__attribute__((noinline)) static void uring_recv_more(struct conn *c, int res, uint32_t flags)
{
	struct worker *w = c->worker;

	/* Kernels before 6.10 use up a buffer for the FIN. */
	if (flags & IORING_CQE_F_BUFFER)
		uring_received(c, uring_chunk(w, flags), (uint32_t)MAX(res, 0),
			       flags & NB_CQE_F_BUF_MORE);
	if (res > 0)
		uring_limit_receives(c, (size_t)res, flags & IORING_CQE_F_MORE);
	if (unlikely(!(flags & IORING_CQE_F_MORE)))
		uring_recv_ended(c, res, flags);
}

/* The completion of a receive.  The first branch is the path of each request: more completions
 * follow (F_MORE), and this one is of a single chunk with room left.  Without incremental buffers
 * each completion takes the other branch, which drops the kernel's reference to the chunk. */
static void uring_recv_done(struct op *op, int res, uint32_t flags)
{
	const uint32_t usual = IORING_CQE_F_MORE | NB_CQE_F_BUF_MORE;
	struct conn *c = container_of(op, struct conn, recv_op);
	struct chunk *k = uring_chunk(c->worker, flags); /* chunk 0 if there is none */
	uint32_t used = k->used;

	if (likely(res > 0 && (flags & usual) == usual &&
		   (uint32_t)res < c->worker->pool.chunk_size - used)) {
		k->used = used + (uint32_t)res;
		conn_input(c, k, k->base + used, (uint32_t)res);
	} else {
		uring_recv_more(c, res, flags);
	}
}

static void uring_control_done(struct op *op, int res, uint32_t flags)
{
	struct conn *c = container_of(op, struct conn, control_op);

	(void)res, (void)flags;
	c->pending--;
	conn_ready(c);
}

void uring_recv_stop(struct conn *c)
{
	uring_need_completion(c);
	if (c->flags & URING_RECV_ARMED)
		uring_recv_cancel(c);
}

static void uring_recv(struct conn *c, bool on)
{
	if (on)
		uring_recv_arm(c, URING_INPUT_UNKNOWN);
	else
		uring_recv_stop(c);
}

/* ---- Connections ---- */

static bool uring_is_local(const struct conn *c)
{
	stat_add(c->worker->stats.sys_other, 1);
	return sockaddr_fd_is_local(c->fd);
}

/* Receives at once by a plain call: a connection's first request has often arrived before it was
 * accepted.  If it is also the last, nothing is in flight when the connection ends. */
int uring_open(struct conn *c)
{
	uring_send_init(c);
	c->control_op.done = uring_control_done;
	if (((struct uring *)c->worker->engine_state)->eager_io && conn_may_receive(c))
		readiness_recv(c, false);
	return 0;
}

static void uring_keep_open(struct conn *c)
{
	struct uring *u = c->worker->engine_state;
	bool paused = c->flags & CONN_RECV_OFF, misses_fin;

	if (c->flags & CONN_EOF) /* Only output is left; the peer will send nothing more. */
		return;
	misses_fin = !u->ring.deferred || (u->local && uring_is_local(c));
	if (!paused) /* conn_resume() arms it */
		uring_recv_arm(c, URING_INPUT_NONE);
	if (misses_fin || !(c->worker->service->flags & SERVICE_ANSWERS))
		uring_reset_arm(c, misses_fin);
}

/* shutdown() completes all operations that wait on the socket, so that c->pending falls to 0 soon.
 * The descriptor itself is closed by the core in conn_free(): until then the kernel's requests may
 * still refer to it by its number. */
void uring_close(struct conn *c)
{
	if (!conn_in_flight(c))
		return;
	uring_need_completion(c);
	stat_add(c->worker->stats.sys_shutdown, 1);
	shutdown(c->fd, SHUT_RDWR);
	/* With SQPOLL a receive may survive the shutdown while data arrives. */
	uring_recv_stop(c);
	/* The kernel releases the buffers of zero-copy sends only when the peer has
	 * acknowledged the data, which may be never; connecting to AF_UNSPEC (tcp(7)) resets
	 * the connection and releases them. */
	if (c->pinned_bytes && c->end != CONN_END_PEER) {
		stat_add(c->worker->stats.sys_other, 1);
		(void)connect(c->fd, &(struct sockaddr){ .sa_family = AF_UNSPEC },
			      sizeof(sa_family_t));
	}
}

const struct engine engine_uring = {
	.name = "io_uring",
	.transport = &transport_tcp,
	.keys = &ring_key_table,
	.sample_turns = 32,
	.features = RING_FEATURES | FEATURE_BIT(multishot_recv) | FEATURE_BIT(buffer_ring) |
		    FEATURE_BIT(incremental_buffers) | FEATURE_BIT(min_left) |
		    FEATURE_BIT(recv_bundle) | FEATURE_BIT(silent_send) | FEATURE_BIT(eager_io) |
		    FEATURE_BIT(rcvlowat) | FEATURE_BIT(drop) | FEATURE_BIT(send_zc),
	.init = uring_init,
	.fini = uring_fini,
	.watch_listener = ring_watch_listener,
	.watch = ring_watch,
	.wait = uring_wait,
	.open = uring_open,
	.keep_open = uring_keep_open,
	.recv = uring_recv,
	.flush = uring_flush,
	.close = uring_close,
};
