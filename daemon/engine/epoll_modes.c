/* Engine `epoll` as other servers use it, for comparison (`epoll-mode`):
 *
 * edge: a socket is added once, for all events (EPOLLET).  An event reports what has arrived, not
 * what is left, so a connection that was not drained receives again in the next turn.
 *
 * oneshot: the kernel disarms a socket with each event (EPOLLONESHOT); one epoll_ctl() arms it
 * again before the worker waits.
 *
 * per-operation: a socket is in the set only while a receive or a send is awaited.  A request and
 * its answer thus take four epoll_ctl(): the socket is added and removed twice.
 *
 * Connections whose input or interest has to be looked at are on the list `touched` until the
 * worker waits, and counted in conn.pending. */
#include <errno.h>

#include "conn.h"
#include "engine.h"
#include "epoll.h"
#include "readiness.h"
#include "worker.h"

enum {
	MODE_ARMED = CONN_ENGINE << 2,    /* oneshot, per-operation: c->events may be reported */
	MODE_WRITABLE = CONN_ENGINE << 3, /* per-operation: the awaited send may be tried */
};
static_assert((int)MODE_WRITABLE < (int)READINESS_READABLE, "flags overlap those of readiness.h");

static void modes_touch(struct conn *c)
{
	struct epoll *e = c->worker->engine_state;

	if (c->flags & (READINESS_AGAIN | CONN_CLOSING | CONN_FRESH))
		return;
	c->flags |= READINESS_AGAIN;
	c->pending++;
	c->engine_state = e->touched;
	e->touched = c;
}

static inline void modes_wait(struct worker *w, bool block, void (*settle)(struct conn *c))
{
	struct epoll *e = w->engine_state;
	struct conn *c = e->touched, *next;

	e->touched = NULL;
	for (; c; c = next) {
		next = c->engine_state;
		c->flags &= ~(uint32_t)READINESS_AGAIN;
		c->pending--;
		/* c could not end while it was counted in `pending`: its next run ends it. */
		if ((c->flags & CONN_CLOSING) || ((c->flags & CONN_EOF) && !c->tx.head))
			conn_ready(c);
		else
			settle(c);
	}
	epoll_wait_turn(w, block && !w->turn.ready && !e->touched);
}

/* No operation is in flight, and no event of a closing connection is awaited again. */
static void modes_close(struct conn *c)
{
	(void)c;
}

/* ---- edge ---- */

static void edge_receive(struct conn *c)
{
	if (readiness_edge(c) == READINESS_MORE)
		modes_touch(c);
}

static void edge_event(struct op *op, int ready, uint32_t flags)
{
	struct conn *c = container_of(op, struct conn, recv_op);

	(void)flags;
	if (c->flags & CONN_CLOSING)
		return;
	if ((ready & EPOLLOUT) && c->tx.head)
		conn_ready(c);
	if (!(ready & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
		return;
	c->flags |= READINESS_READABLE;
	if (ready & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		c->flags |= READINESS_GONE;
	edge_receive(c);
	/* Input is paused, so no receive will report the peer's reset. */
	if ((ready & EPOLLERR) && (c->flags & (CONN_EOF | CONN_RECV_OFF)))
		conn_failed(c, ECONNRESET);
}

static int edge_open(struct conn *c)
{
	int rc = epoll_open(c);

	c->recv_op.done = edge_event;
	return rc;
}

static void edge_keep_open(struct conn *c)
{
	int rc = epoll_change(c->worker, EPOLL_CTL_ADD, c->fd,
			      EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, &c->recv_op);

	if (rc < 0)
		conn_failed(c, -rc);
}

static void edge_recv(struct conn *c, bool on)
{
	if (on && (c->flags & READINESS_READABLE))
		modes_touch(c);
}

static void edge_flush(struct conn *c)
{
	readiness_send(c); /* an event tells when there is room for what is left */
}

static void edge_wait(struct worker *w, bool block)
{
	modes_wait(w, block, edge_receive);
}

static bool suits_edge(const struct worker_options *options)
{
	return epoll_mode(options) == EPOLL_EDGE;
}

const struct engine engine_epoll_edge = {
	.suits = suits_edge,
	EPOLL_ENGINE,
	.wait = edge_wait,
	.open = edge_open,
	.keep_open = edge_keep_open,
	.recv = edge_recv,
	.flush = edge_flush,
	.close = modes_close,
};

/* ---- oneshot, per-operation ---- */

static inline bool once_per_operation(const struct conn *c)
{
	const struct epoll *e = c->worker->engine_state;

	return e->mode == EPOLL_PER_OPERATION;
}

/* Arms c for its input, unless that is paused, and for room for the output that is left. */
static void once_arm(struct conn *c)
{
	uint32_t events = (c->flags & (CONN_EOF | CONN_RECV_OFF | CONN_NO_MEMORY) ? 0 : EPOLLIN) |
			  (c->tx.head ? EPOLLOUT : 0);
	bool left = c->flags & EPOLL_LEFT;
	int rc;

	if (left ? !events : (c->flags & MODE_ARMED) && events == c->events)
		return;
	rc = epoll_change(c->worker, left ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, c->fd,
			  events | EPOLLONESHOT, &c->recv_op);
	if (rc < 0) { /* Without that c would never get an event again. */
		conn_failed(c, -rc);
		return;
	}
	c->events = events;
	c->flags = (c->flags & ~(uint32_t)EPOLL_LEFT) | MODE_ARMED;
}

static void once_event(struct op *op, int ready, uint32_t flags)
{
	struct conn *c = container_of(op, struct conn, recv_op);
	bool input = ready & c->events & EPOLLIN;

	(void)flags;
	c->flags &= ~(uint32_t)MODE_ARMED;
	if (c->flags & CONN_CLOSING)
		return;
	if (once_per_operation(c))
		epoll_leave(c);
	if (ready & EPOLLOUT) {
		c->flags |= MODE_WRITABLE;
		conn_ready(c);
	}
	if (input && !(c->flags & (CONN_EOF | CONN_NO_MEMORY | CONN_RAW)))
		readiness_recv(c, false);
	else if (c->flags & CONN_RAW)
		conn_ready(c);
	else if (!input && (ready & (EPOLLERR | EPOLLHUP)))
		epoll_gone(c);
	modes_touch(c);
}

static int once_open(struct conn *c)
{
	int rc = epoll_open(c);

	c->recv_op.done = once_event;
	return rc;
}

static void once_recv(struct conn *c, bool on)
{
	(void)on;
	modes_touch(c);
}

static void once_flush(struct conn *c)
{
	bool may_send = !once_per_operation(c) || (c->flags & (MODE_WRITABLE | CONN_FRESH));

	c->flags &= ~(uint32_t)MODE_WRITABLE;
	if (!may_send || !readiness_send(c))
		modes_touch(c);
}

static void once_wait(struct worker *w, bool block)
{
	modes_wait(w, block, once_arm);
}

static bool suits_oneshot(const struct worker_options *options)
{
	return epoll_mode(options) == EPOLL_ONESHOT;
}

static bool suits_per_operation(const struct worker_options *options)
{
	return epoll_mode(options) == EPOLL_PER_OPERATION;
}

#define ONCE_ENGINE                                                                                \
	EPOLL_ENGINE, .wait = once_wait, .open = once_open, .keep_open = modes_touch,              \
		      .recv = once_recv, .flush = once_flush, .close = modes_close
const struct engine engine_epoll_oneshot = { .suits = suits_oneshot, ONCE_ENGINE };
const struct engine engine_epoll_per_operation = { .suits = suits_per_operation, ONCE_ENGINE };
