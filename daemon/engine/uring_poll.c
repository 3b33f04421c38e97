/* Engine `io_uring-poll`: io_uring as a reactor.  Multishot polls report which sockets are ready;
 * accept, receive and send are plain system calls, as with epoll.
 *
 * A multishot poll is edge-triggered: it reports that something arrives, not that something is
 * there.  So a connection that still has input is on the `again` list, and receives in the next
 * turn. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "conn.h"
#include "engine.h"
#include "readiness.h"
#include "ring.h"
#include "worker.h"

enum uring_poll_flags {
	POLL_ARMED = CONN_ENGINE << 0,     /* a multishot POLLIN is armed */
	POLL_OUT_ARMED = CONN_ENGINE << 1, /* a POLLOUT is armed: tx is blocked */
};
static_assert((int)POLL_OUT_ARMED < (int)READINESS_READABLE, "flags overlap those of readiness.h");

struct uring_poll {
	struct ring ring; /* must be first: see ring_of() */
	/* connections that still have input; linked by engine_state and counted in conn.pending */
	struct conn *again;
};
static_assert(offsetof(struct uring_poll, ring) == 0, "ring_of() expects it there");

static void poll_again(struct conn *c)
{
	struct uring_poll *u = c->worker->engine_state;

	if (c->flags & READINESS_AGAIN)
		return;
	c->flags |= READINESS_AGAIN;
	c->pending++;
	c->engine_state = u->again;
	u->again = c;
}

/* Receives.  At the end of the input it cancels the poll, which would outlive the connection.
 * POLL_REMOVE is not used: it fails with EALREADY while an event of the poll is being delivered. */
static void poll_receive(struct conn *c)
{
	enum readiness result = readiness_edge(c);

	if (result == READINESS_MORE)
		poll_again(c);
	else if (result == READINESS_ENDED && (c->flags & CONN_EOF) && (c->flags & POLL_ARMED))
		ring_cancel(ring_of(c->worker), &c->recv_op);
}

static void poll_arm(struct conn *c)
{
	struct uring_poll *u = c->worker->engine_state;
	struct io_uring_sqe *sqe = ring_sqe(&u->ring);

	io_uring_prep_poll_multishot(sqe, c->fd, POLLIN | POLLRDHUP);
	ring_op(sqe, &c->recv_op);
	c->flags |= POLL_ARMED;
	c->pending++;
}

static void poll_event(struct op *op, int ready, uint32_t flags)
{
	struct conn *c = container_of(op, struct conn, recv_op);

	if (!(flags & IORING_CQE_F_MORE)) {
		c->pending--;
		c->flags &= ~(uint32_t)POLL_ARMED;
		if (c->flags & (CONN_CLOSING | CONN_EOF)) {
			conn_ready(c);
			return;
		}
		poll_arm(c);
	}
	if (ready < 0 || (c->flags & CONN_CLOSING))
		return;
	c->flags |= READINESS_READABLE;
	if (ready & (POLLRDHUP | POLLHUP | POLLERR))
		c->flags |= READINESS_GONE;
	poll_receive(c);
	/* Input is paused, so no receive will report the reset.  POLLHUP alone is not checked: a
	 * Unix peer's close may follow input. */
	if ((ready & POLLERR) && (c->flags & (CONN_EOF | CONN_RECV_OFF)))
		conn_failed(c, ECONNRESET);
}

static void poll_out_event(struct op *op, int ready, uint32_t flags)
{
	struct conn *c = container_of(op, struct conn, send_op);

	(void)ready, (void)flags;
	c->pending--;
	c->flags &= ~(uint32_t)POLL_OUT_ARMED;
	conn_ready(c);
}

static int poll_open(struct conn *c)
{
	c->recv_op.done = poll_event;
	c->send_op.done = poll_out_event;
	if (conn_may_receive(c)) /* else the event of data asks for a chunk */
		poll_receive(c);
	return 0;
}

static void poll_keep_open(struct conn *c)
{
	if (!(c->flags & CONN_EOF))
		poll_arm(c);
}

static void poll_recv(struct conn *c, bool on)
{
	if (on && (c->flags & READINESS_READABLE))
		poll_again(c);
}

static void poll_flush(struct conn *c)
{
	struct uring_poll *u = c->worker->engine_state;
	struct io_uring_sqe *sqe;

	if ((c->flags & POLL_OUT_ARMED) || readiness_send(c) || (c->flags & CONN_CLOSING))
		return;
	sqe = ring_sqe(&u->ring);
	io_uring_prep_poll_add(sqe, c->fd, POLLOUT);
	ring_op(sqe, &c->send_op);
	c->flags |= POLL_OUT_ARMED;
	c->pending++;
}

static void poll_close(struct conn *c)
{
	if (c->flags & POLL_ARMED)
		ring_cancel(ring_of(c->worker), &c->recv_op);
	if (c->flags & POLL_OUT_ARMED)
		ring_cancel(ring_of(c->worker), &c->send_op);
}

static void poll_run_again(struct conn *c)
{
	while (c) {
		struct conn *next = c->engine_state;

		c->flags &= ~(uint32_t)READINESS_AGAIN;
		c->pending--;
		conn_ready(c);
		poll_receive(c);
		c = next;
	}
}

static void poll_wait(struct worker *w, bool block)
{
	struct uring_poll *u = w->engine_state;
	struct conn *again = u->again;

	if (!ring_ready(&u->ring))
		ring_wait(&u->ring, block && !again);
	if (again || u->ring.sqpoll)
		ring_catch_up(&u->ring);
	worker_awake(w);
	/* Connections that still have input are put on a new list, for the next turn. */
	u->again = NULL;
	ring_reap(&u->ring);
	poll_run_again(again);
}

static void poll_fini(struct worker *w)
{
	struct uring_poll *u = w->engine_state;

	ring_fini(&u->ring);
	free(u);
	w->engine_state = NULL;
}

static int poll_init(struct worker *w, struct reason *reason)
{
	struct uring_poll *u = calloc(1, sizeof(*u));
	int rc;

	if (!u)
		return reason_set(reason, -ENOMEM, "io_uring-poll: no memory");
	w->engine_state = u;
	rc = ring_init(&u->ring, w, 0, RING_LISTENS | (w->mount_count ? RING_STORES : 0), reason);
	if (rc < 0) {
		free(u);
		w->engine_state = NULL;
		return rc;
	}
	w->ring = &u->ring;
	worker_feature(w, FEATURE_multishot_poll);
	if (worker_wants(w, FEATURE_multishot_accept))
		worker_feature(w, FEATURE_multishot_accept);
	return 0;
}

const struct engine engine_uring_poll = {
	.name = "io_uring-poll",
	.transport = &transport_tcp,
	.sample_turns = 8,
	.features = RING_FEATURES | FEATURE_BIT(multishot_poll) | FEATURE_BIT(rcvlowat) |
		    FEATURE_BIT(drop),
	.init = poll_init,
	.fini = poll_fini,
	.watch_listener = ring_watch_listener,
	.watch = ring_watch,
	.wait = poll_wait,
	.open = poll_open,
	.keep_open = poll_keep_open,
	.recv = poll_recv,
	.flush = poll_flush,
	.close = poll_close,
};
