/* Engines `epoll` and `io_uring-poll`, transport `udp`: see udp.h.  Both are told that a socket has
 * input or room, then receive and send by calls; they differ in how they ask to be told. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "udp.h"

struct reactor {
	struct udp udp; /* must be first: see udp.h */
	struct udp_receiver *receiver;
	/* epoll: number of sockets outside the set, which are read in the next turn; turns since
	 * the last look at the set */
	unsigned read_again, unseen;
};
static_assert(offsetof(struct reactor, udp) == 0, "udp_of() expects it there");

/* Frees the state that reactor_init() made. */
static void reactor_free(struct worker *w)
{
	struct reactor *r = w->engine_state;

	udp_receiver_free(r->receiver, w);
	free(r);
	w->engine_state = NULL;
}

/* start() sets up the source of events and r->udp.watch, and calls udp_init(). */
static int reactor_init(struct worker *w, int (*start)(struct reactor *r, struct reason *reason),
			struct reason *reason)
{
	struct reactor *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return reason_set(reason, -ENOMEM, "%s: no memory", w->engine->name);
	w->engine_state = r;
	r->udp.worker = w;
	r->receiver = udp_receiver_new(w);
	rc = r->receiver ? start(r, reason)
			 : reason_set(reason, -ENOMEM, "%s: no memory", w->engine->name);
	if (rc < 0)
		reactor_free(w);
	return rc;
}

/* ---- epoll ----
 *
 * Each socket has one registration, for input or, while it is blocked, for room to send.
 *
 * A registered socket costs something for each datagram that it sends: the kernel then checks
 * whether the epoll set waits for room.  So a socket that brings many datagrams leaves the set, and
 * is read in every turn until it brings none. */

enum {
	/* Datagrams in a turn from which on a socket leaves the set: then leaving and joining it
	 * again costs less than it saves. */
	EPOLL_UDP_MANY = 16,
	/* Turns between two looks at the set while every socket has left it: the set still has the
	 * descriptors that the worker itself watches, such as its mailbox. */
	EPOLL_UDP_LOOK = 4,
};

static void epoll_udp_event(struct op *op, int ready, uint32_t flags);

static void epoll_udp_set_again(struct udp_socket *s, bool again)
{
	struct reactor *r = s->acceptor->worker->engine_state;

	if (again != s->again)
		r->read_again += again ? 1 : -1U;
	s->again = again;
}

/* Makes the socket's place in the set follow from its state; to be called when that has changed. */
static void epoll_udp_interest(struct udp_socket *s)
{
	uint32_t events = s->awaits_room ? EPOLLOUT : 0;
	struct acceptor *a = s->acceptor;
	int rc;

	if (s->armed && !s->again)
		events = EPOLLIN; /* not blocked: see udp_set_interest() */
	if (a->fd < 0 || events == s->events)
		return;
	a->op.done = epoll_udp_event;
	rc = epoll_change(a->worker,
			  !events     ? EPOLL_CTL_DEL
			  : s->events ? EPOLL_CTL_MOD
				      : EPOLL_CTL_ADD,
			  a->fd, events, &a->op);
	if (rc == 0)
		s->events = events;
	else /* no memory in the kernel: tried again in the next turn */
		epoll_udp_set_again(s, true);
}

static void epoll_udp_take(struct reactor *r, struct udp_socket *s)
{
	unsigned received = udp_ready_receive(r->receiver, s);
	bool again = received >= (s->again ? 1U : (unsigned)EPOLL_UDP_MANY);

	if (again == s->again)
		return;
	epoll_udp_set_again(s, again);
	epoll_udp_interest(s);
}

static void epoll_udp_event(struct op *op, int ready, uint32_t flags)
{
	struct acceptor *a = container_of(op, struct acceptor, op);
	struct reactor *r = a->worker->engine_state;
	struct udp_socket *s = udp_socket_of(&r->udp, a);

	(void)flags;
	if (unlikely(ready & EPOLLOUT) && s->awaits_room)
		udp_room(s);
	if ((ready & EPOLLIN) && s->armed)
		epoll_udp_take(r, s);
}

static bool epoll_udp_send(struct worker_hook *hook)
{
	struct reactor *r = container_of(hook, struct reactor, udp.hook);

	udp_ready_send(hook);
	return r->read_again > 0;
}

static void epoll_udp_wait(struct worker *w, bool block)
{
	struct reactor *r = w->engine_state;

	if (r->read_again < r->udp.count || ++r->unseen >= EPOLL_UDP_LOOK) {
		r->unseen = 0;
		epoll_wait_turn(w, block);
	} else {
		worker_awake(w);
	}
	for (unsigned i = 0; r->read_again && i < r->udp.count; i++)
		if (r->udp.sockets[i].again)
			epoll_udp_take(r, &r->udp.sockets[i]);
}

static int epoll_udp_start(struct reactor *r, struct reason *reason)
{
	int rc = epoll_start(&r->udp.epoll, r->udp.worker, reason);

	if (rc < 0)
		return rc;
	r->udp.watch = epoll_udp_interest;
	rc = udp_init(&r->udp, epoll_udp_send, reason);
	if (rc < 0)
		close(r->udp.epoll.fd);
	return rc;
}

static int epoll_udp_init(struct worker *w, struct reason *reason)
{
	return reactor_init(w, epoll_udp_start, reason);
}

static void epoll_udp_fini(struct worker *w)
{
	struct udp *u = w->engine_state;

	udp_fini(u);
	close(u->epoll.fd);
	reactor_free(w);
}

const struct engine engine_epoll_udp = {
	.name = "epoll",
	UDP_ENGINE,
	.sample_turns = 8,
	.features = UDP_FEATURES | FEATURE_BIT(socket_busy_poll),
	.init = epoll_udp_init,
	.fini = epoll_udp_fini,
	.watch = epoll_watch,
	.wait = epoll_udp_wait,
};

/* ---- io_uring-poll ----
 *
 * A single-shot poll reports input of a socket and is armed again after the turn's receives; if
 * there is more input, it completes at once. */

static void poll_udp_await_input(struct udp_socket *s)
{
	struct io_uring_sqe *sqe = ring_sqe(&s->udp->ring);

	s->polled = true;
	s->acceptor->armed++;
	io_uring_prep_poll_add(sqe, s->acceptor->fd, POLLIN);
	ring_op(sqe, &s->acceptor->op);
}

static void poll_udp_event(struct op *op, int ready, uint32_t flags)
{
	struct acceptor *a = container_of(op, struct acceptor, op);
	struct reactor *r = a->worker->engine_state;
	struct udp_socket *s = udp_socket_of(&r->udp, a);

	(void)flags;
	a->armed--;
	s->polled = false;
	if (ready > 0 && s->armed)
		udp_ready_receive(r->receiver, s);
	if (s->armed && a->fd >= 0)
		poll_udp_await_input(s);
}

static void poll_udp_watch(struct udp_socket *s)
{
	struct acceptor *a = s->acceptor;

	a->op.done = poll_udp_event;
	if (s->armed && !s->polled)
		poll_udp_await_input(s);
	else if (!s->armed && s->polled)
		ring_cancel(&s->udp->ring, &a->op);
	udp_ring_watch_room(s);
}

static void poll_udp_wait(struct worker *w, bool block)
{
	struct ring *ring = ring_of(w);

	ring_wait(ring, block);
	worker_awake(w);
	ring_reap(ring);
}

static int poll_udp_start(struct reactor *r, struct reason *reason)
{
	int rc = ring_init(&r->udp.ring, r->udp.worker, 0, RING_LISTENS, reason);

	if (rc < 0)
		return rc;
	r->udp.watch = poll_udp_watch;
	rc = udp_init(&r->udp, udp_ready_send, reason);
	if (rc < 0)
		ring_fini(&r->udp.ring);
	return rc;
}

static int poll_udp_init(struct worker *w, struct reason *reason)
{
	return reactor_init(w, poll_udp_start, reason);
}

static void poll_udp_fini(struct worker *w)
{
	struct udp *u = w->engine_state;

	ring_fini(&u->ring);
	udp_fini(u);
	reactor_free(w);
}

const struct engine engine_uring_poll_udp = {
	.name = "io_uring-poll",
	UDP_ENGINE,
	.sample_turns = 8,
	.features = UDP_FEATURES | UDP_RING_FEATURES,
	.init = poll_udp_init,
	.fini = poll_udp_fini,
	.watch = ring_watch,
	.wait = poll_udp_wait,
};
