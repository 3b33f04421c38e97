/* Engine `io_uring`, sending: one send in flight per connection, first with MSG_DONTWAIT, which
 * completes at once; when the peer is slow the rest waits for room.  From zero-copy-min bytes on
 * with SEND_ZC.  See uring.h. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "readiness.h"
#include "uring.h"
#include "uring_compat.h"

/* The kernel took res bytes of c->sending, or failed.  Output has two queues: c->tx is what the
 * service added and no send covers; c->sending is what the one send in flight covers, whose memory
 * must not change.  After a short send the rest goes back to the front of tx. */
static void uring_sent(struct conn *c, int res)
{
	struct worker *w = c->worker;
	struct uring *u = w->engine_state;
	bool waited = c->flags & URING_SEND_WAIT;

	c->pending--;
	c->flags &= ~(uint32_t)URING_SEND_WAIT;
	if (res < 0 && res != -EAGAIN && res != -EINTR) {
		bufq_drop(&w->pool, &c->sending, c->sending.bytes);
		conn_ready(c);
		conn_failed(c, -res);
		return;
	}
	if (res > 0)
		conn_sent(c, &c->sending, (size_t)res, waited || u->ring.sqpoll ? 0 : u->sent_ns);
	/* The peer is slow: the rest is sent first, and may wait for room. */
	if (c->sending.bytes) {
		stat_add(w->stats.tx_blocked, 1);
		c->flags |= URING_SEND_WAIT;
		bufq_prepend(&c->tx, &c->sending);
	}
	if (c->tx.bytes || (c->flags & (CONN_EOF | CONN_CLOSING | CONN_RECV_OFF)))
		conn_ready(c);
}

static void uring_send_done(struct op *op, int res, uint32_t flags)
{
	(void)flags;
	uring_sent(container_of(op, struct conn, send_op), res);
}

static struct uring_send *uring_send_get(struct uring *u)
{
	struct uring_send *s = u->send_free;

	if (s) {
		u->send_free = s->next;
		return s;
	}
	return malloc(sizeof(*s));
}

static void uring_send_put(struct uring *u, struct uring_send *s)
{
	s->next = u->send_free;
	u->send_free = s;
}

static void uring_sendmsg_done(struct op *op, int res, uint32_t flags)
{
	struct uring_send *s = container_of(op, struct uring_send, op);
	struct conn *c = s->conn;

	(void)flags;
	uring_send_put(c->worker->engine_state, s);
	uring_sent(c, res);
}

/* Has the kernel refused a SEND_ZC without sending anything?  A Unix socket has none, and there may
 * be no memory. */
static bool uring_is_zero_copy_refused(int res)
{
	return res == -EOPNOTSUPP || res == -ENOMEM || res == -ENOBUFS;
}

/* Repeats the send with a copy, and uses no SEND_ZC on c from now on. */
static void uring_zero_copy_refused(struct conn *c)
{
	c->flags |= URING_COPIED;
	c->pending--;
	bufq_prepend(&c->tx, &c->sending);
	conn_ready(c);
}

/* SEND_ZC completes twice: with the result, and with the notification that the kernel no longer
 * reads the buffers. */
static void uring_send_zc_done(struct op *op, int res, uint32_t flags)
{
	struct uring_send *s = container_of(op, struct uring_send, op);
	struct conn *c = s->conn;
	struct worker *w = c->worker;

	if (!(flags & NB_CQE_F_NOTIF)) {
		if (res > 0) { /* keep the views that were sent until the notification */
			assert(c->sending.head);
			for (struct view *v = c->sending.head; v; v = v->next)
				bufq_push(&s->views, view_new(&w->pool, v->chunk, v->data, v->len));
			c->pinned_bytes += s->views.bytes;
		}
		if (flags & IORING_CQE_F_MORE)
			c->pending++; /* for the notification */
		if (uring_is_zero_copy_refused(res))
			uring_zero_copy_refused(c);
		else
			uring_sent(c, res);
		if (flags & IORING_CQE_F_MORE)
			return;
	} else {
		if (c->flags & URING_COPIED)
			; /* already counted when the send was repeated */
		else if (res & (int)NB_NOTIF_ZC_COPIED)
			stat_add(w->stats.zero_copy_copied, 1);
		else
			stat_add(w->stats.zero_copied, 1);
		c->pending--;
		conn_ready(c);
	}
	c->pinned_bytes -= s->views.bytes;
	bufq_drop(&w->pool, &s->views, s->views.bytes);
	uring_send_put(w->engine_state, s);
}

static struct io_uring_sqe *uring_queue_sendmsg(struct conn *c, struct uring_send *s,
						unsigned views, int flags, bool zero_copy)
{
	struct uring *u = c->worker->engine_state;
	struct io_uring_sqe *sqe = ring_sqe(&u->ring);

	s->conn = c;
	s->views = (struct bufq){ 0 };
	s->msg = (struct msghdr){ .msg_iov = s->iov, .msg_iovlen = views };
	s->op.done = zero_copy ? uring_send_zc_done : uring_sendmsg_done;
	if (zero_copy) {
		io_uring_prep_sendmsg_zc(sqe, c->fd, &s->msg, (unsigned)flags);
		sqe->ioprio |= NB_SEND_ZC_REPORT_USAGE;
	} else {
		io_uring_prep_sendmsg(sqe, c->fd, &s->msg, (unsigned)flags);
	}
	ring_op(sqe, &s->op);
	return sqe;
}

static inline void uring_prep_send(struct conn *c, struct io_uring_sqe *sqe, const struct view *v,
				   int flags)
{
	io_uring_prep_send(sqe, c->fd, v->data, v->len, flags);
	if (!(flags & MSG_DONTWAIT))
		sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
	ring_op(sqe, &c->send_op);
}

/* ---- Quiet sends ----
 *
 * Nothing depends on the completion of a quiet send: no further output, no paused input, no FIN, no
 * connection that waits for its chunk.  But a short send must be noticed.  In a large batch each
 * send completes as usual, and the worker does not sleep before it has reaped them all.  In a small
 * batch that would cost a second system call, so those sends are silent: MSG_WAITALL makes a short
 * send a failure, and IOSQE_CQE_SKIP_SUCCESS (Linux 5.17) keeps all but failures from completing.
 */

static inline void uring_quiet(struct uring *u, struct conn *c, struct io_uring_sqe *sqe,
			       struct op *op)
{
	if (unlikely(c->op_start_ns)) /* its time of sending must be read before the wait */
		u->ring.worker->turn.timing = true;
	if (u->ring.quiet < URING_SILENT_MAX)
		u->quiet[u->ring.quiet] = (struct uring_quiet){ c, sqe, op };
	u->ring.quiet++;
}

/* Makes the queued sends silent: they are still in the submission queue, so their entries can be
 * changed.  Returns their number. */
static inline unsigned uring_silence(struct uring *u)
{
	unsigned count = u->ring.quiet;

	for (unsigned i = 0; i < count; i++) {
		u->quiet[i].sqe->msg_flags |= MSG_WAITALL;
		u->quiet[i].sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
	}
	u->ring.quiet = 0;
	return count;
}

/* Called if the kernel may not have taken all submissions (no memory for requests, or an
 * interrupted call).  Returns how many of the `count` silent sends it has taken; the others are
 * still in the submission queue, and are changed back to complete normally. */
__attribute__((noinline)) static unsigned uring_unsilence(struct uring *u, unsigned count)
{
	for (; count > 0 && ring_holds(&u->ring, u->quiet[count - 1].sqe); count--) {
		u->quiet[count - 1].sqe->msg_flags &= ~(uint32_t)MSG_WAITALL;
		u->quiet[count - 1].sqe->flags &= (uint8_t)~IOSQE_CQE_SKIP_SUCCESS;
	}
	return count;
}

/* The system call that submitted the silent sends has returned.  With MSG_DONTWAIT each of them has
 * completed by then: one that failed has a completion, which uring_sent() has handled and which
 * emptied c->sending; all others were sent whole, which is accounted for here. */
static inline void uring_end_silence(struct uring *u, unsigned count)
{
	for (const struct uring_quiet *q = u->quiet, *end = q + count; q < end; q++) {
		struct conn *c = q->conn;

		if (unlikely(!c->sending.bytes))
			continue; /* its failure has completed already */
		if (unlikely(q->op != &c->send_op)) {
			q->op->done(q->op, (int)c->sending.bytes, 0);
			continue;
		}
		c->pending--;
		conn_sent(c, &c->sending, c->sending.bytes, u->sent_ns);
		if (c->tx.bytes)
			conn_ready(c);
	}
}

__attribute__((noinline)) static void uring_submit_timed(struct uring *u)
{
	uring_submit_and_time(u);
}

/* One io_uring_enter per turn: it submits the sends, waits, and runs the deferred work.  While
 * completions are waiting there is no call, unless work was deferred.  Sends with MSG_DONTWAIT
 * complete before the call returns. */
void uring_wait(struct worker *w, bool block)
{
	struct uring *u = w->engine_state;
	bool taken = false, left;
	unsigned silent = 0;

	if (unlikely(w->pool_posted < u->posted_max))
		uring_refill(w);
	if (unlikely(w->turn.timing) && u->ring.quiet && !u->ring.sqpoll)
		uring_submit_timed(u);
	if (unlikely(ring_ready(&u->ring))) {
		ring_catch_up(&u->ring);
	} else {
		/* Not while connections wait for memory: each completion frees chunks for one of
		 * them. */
		if (block && u->ring.quiet && u->ring.quiet <= u->silent_max &&
		    !w->pressure.waiting)
			silent = uring_silence(u);
		atomic_store_explicit(&w->counters_lag, silent > 0, memory_order_relaxed);
		if (likely(!u->ring.slow_wait && !w->deadlines.wake_ns))
			taken = ring_enter_plain(&u->ring, block);
		else
			taken = ring_wait(&u->ring, block);
		if (unlikely(!taken))
			silent = uring_unsilence(u, silent);
		if (unlikely(!block))
			ring_catch_up(&u->ring);
	}
	worker_awake(w);
	left = ring_reap(&u->ring);
	if (silent) {
		if (unlikely(left)) /* a failure may be among the completions that are left */
			ring_reap_all(&u->ring);
		uring_end_silence(u, silent);
	}
}

/* Is c's output sent by a plain call?  A connection's first output is: if it is also the last,
 * nothing is in flight when the connection ends. */
static bool uring_sends_by_call(const struct conn *c)
{
	const struct uring *u = c->worker->engine_state;

	return (c->flags & CONN_FRESH) && u->eager_io && !u->zero_copy && !c->sending.bytes &&
	       !(c->flags & URING_SEND_WAIT);
}

/* Sends output in all cases but the one of uring_flush(): several views, zero copy, sends that may
 * wait, or whose completion is needed. */
__attribute__((noinline)) static void uring_flush_any(struct conn *c)
{
	struct worker *w = c->worker;
	struct uring *u = w->engine_state;
	bool wait, zero_copy;
	int flags;
	struct op *op = &c->send_op;
	struct io_uring_sqe *sqe;
	struct iovec iov[URING_IOV];
	size_t bytes;
	unsigned n;

	if (uring_sends_by_call(c)) {
		if (readiness_send(c) || (c->flags & CONN_CLOSING))
			return;
		c->flags |= URING_SEND_WAIT; /* the socket is full */
	}
	wait = c->flags & URING_SEND_WAIT;
	flags = MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT);
	if (c->sending.bytes) { /* one in flight: two on a full socket would interleave */
		uring_need_completion(c);
		return;
	}
	n = bufq_iov(&c->tx, iov, MIN(URING_IOV, worker_share_chunks(w)), &bytes);
	zero_copy = u->zero_copy && bytes >= u->zero_copy_min;
	if (zero_copy && (!u->locks_freely || (c->flags & URING_COPIED))) {
		stat_add(w->stats.zero_copy_copied, 1);
		zero_copy = false;
	}
	if (n == 1 && !zero_copy) {
		sqe = ring_sqe(&u->ring);
		uring_prep_send(c, sqe, c->tx.head, flags);
	} else {
		struct uring_send *s = uring_send_get(u);

		if (!s) {
			conn_failed(c, ENOMEM);
			return;
		}
		memcpy(s->iov, iov, n * sizeof(iov[0]));
		sqe = uring_queue_sendmsg(c, s, n, flags, zero_copy);
		op = &s->op;
	}
	bufq_take(&w->pool, &c->sending, &c->tx, bytes);
	c->pending++;
	if (!wait && !zero_copy && !c->tx.bytes && !conn_waits_for_tx(c))
		uring_quiet(u, c, sqe, op);
}

void uring_flush(struct conn *c)
{
	struct uring *u = c->worker->engine_state;
	const struct view *v = c->tx.head;
	struct io_uring_sqe *sqe;

	if (unlikely(v->next || c->sending.bytes || c->rx.bytes || u->zero_copy ||
		     (c->flags & URING_SEND_WAIT) ||
		     (c->flags & (CONN_WAITS_FOR_TX | CONN_FRESH)) || ring_full(&u->ring))) {
		uring_flush_any(c);
		return;
	}
	/* The usual answer: a quiet send of one view.  No function is called here, so that no
	 * register must be saved. */
	sqe = ring_next_sqe(&u->ring);
	uring_prep_send(c, sqe, v, MSG_NOSIGNAL | MSG_DONTWAIT);
	c->sending = c->tx;
	c->tx = (struct bufq){ 0 };
	c->pending++;
	uring_quiet(u, c, sqe, &c->send_op);
}

void uring_send_init(struct conn *c)
{
	c->send_op.done = uring_send_done;
}
