/* Engine `io_uring-poll`, transport `udp`: see udp.h.  A single-shot poll reports input of a socket
 * and is armed again after the turn's receives; if there is more input, it completes at once. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>

#include "ring.h"
#include "udp.h"

struct poll_udp {
	struct ring ring; /* must be first: see ring.h */
	struct udp udp;
	struct udp_receiver *receiver;
};
static_assert(offsetof(struct poll_udp, ring) == 0, "ring_of() expects it there");

static void poll_udp_arm(struct udp_socket *s, unsigned events, struct op *op)
{
	struct poll_udp *u = s->acceptor->worker->engine_state;
	struct io_uring_sqe *sqe = ring_sqe(&u->ring);

	io_uring_prep_poll_add(sqe, s->acceptor->fd, events);
	ring_op(sqe, op);
}

static void poll_udp_await_input(struct udp_socket *s)
{
	s->polled = true;
	s->acceptor->armed++;
	poll_udp_arm(s, POLLIN, &s->acceptor->op);
}

static void poll_udp_cancel(struct udp_socket *s, struct op *op)
{
	struct poll_udp *u = s->acceptor->worker->engine_state;
	struct io_uring_sqe *sqe = ring_sqe(&u->ring);

	io_uring_prep_cancel(sqe, op, 0);
	sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
	ring_op(sqe, NULL);
}

static void poll_udp_event(struct op *op, int ready, uint32_t flags)
{
	struct acceptor *a = container_of(op, struct acceptor, op);
	struct poll_udp *u = a->worker->engine_state;
	struct udp_socket *s = udp_socket_of(&u->udp, a);

	(void)flags;
	a->armed--;
	s->polled = false;
	if (ready > 0 && s->armed)
		udp_ready_receive(u->receiver, s);
	if (s->armed && a->fd >= 0)
		poll_udp_await_input(s);
}

static void poll_udp_room(struct op *op, int ready, uint32_t flags)
{
	struct udp_socket *s = container_of(op, struct udp_socket, out_op);

	(void)ready, (void)flags;
	s->blocked = false;
	udp_set_receiving(s);
}

static void poll_udp_receive(struct udp_socket *s, bool on)
{
	struct acceptor *a = s->acceptor;

	a->op.done = poll_udp_event;
	if (on && !s->polled)
		poll_udp_await_input(s);
	else if (!on && s->polled)
		poll_udp_cancel(s, &a->op);
}

static void poll_udp_await_room(struct udp_socket *s)
{
	s->out_op.done = poll_udp_room;
	poll_udp_arm(s, POLLOUT, &s->out_op);
}

static void poll_udp_listen(struct worker *w, struct acceptor *a, bool on)
{
	struct poll_udp *u = w->engine_state;

	udp_listen(udp_socket_of(&u->udp, a), on);
}

static void poll_udp_settle(struct worker *w)
{
	struct poll_udp *u = w->engine_state;

	udp_settle(&u->udp);
}

static void poll_udp_wait(struct worker *w, bool block)
{
	struct poll_udp *u = w->engine_state;

	ring_wait(&u->ring, block);
	worker_awake(w);
	ring_reap(&u->ring);
}

static int poll_udp_start(struct poll_udp *u, struct worker *w, struct reason *reason)
{
	int rc = ring_init(&u->ring, w, 0, RING_LISTENS, reason);

	if (rc < 0)
		return rc;
	u->udp.receive = poll_udp_receive;
	u->udp.await_room = poll_udp_await_room;
	rc = udp_init(&u->udp, w, udp_ready_send, reason);
	if (rc < 0)
		ring_fini(&u->ring);
	return rc;
}

static int poll_udp_init(struct worker *w, struct reason *reason)
{
	struct poll_udp *u = calloc(1, sizeof(*u));
	int rc;

	if (!u)
		return reason_set(reason, -ENOMEM, "io_uring-poll: no memory");
	w->engine_state = u;
	u->receiver = udp_receiver_new(w);
	rc = u->receiver ? poll_udp_start(u, w, reason)
			 : reason_set(reason, -ENOMEM, "io_uring-poll: no memory");
	if (rc < 0) {
		udp_receiver_free(u->receiver, w);
		free(u);
		w->engine_state = NULL;
	}
	return rc;
}

static void poll_udp_fini(struct worker *w)
{
	struct poll_udp *u = w->engine_state;

	ring_fini(&u->ring);
	udp_fini(&u->udp);
	udp_receiver_free(u->receiver, w);
	free(u);
	w->engine_state = NULL;
}

extern const struct engine engine_uring_poll_udp;

const struct engine engine_uring_poll_udp = {
	.name = "io_uring-poll",
	UDP_ENGINE,
	.sample_turns = 8,
	.features = UDP_FEATURES | UDP_RING_FEATURES,
	.init = poll_udp_init,
	.fini = poll_udp_fini,
	.listen = poll_udp_listen,
	.settle = poll_udp_settle,
	.watch = ring_watch,
	.wait = poll_udp_wait,
};
