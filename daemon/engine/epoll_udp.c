/* Engine `epoll`, transport `udp`: see udp.h.  Each socket has one registration, for input and,
 * while it is blocked, for room to send.
 *
 * For each datagram that it sends, a registered socket has the kernel look whether the set waits
 * for room to send.  So a socket that brings many datagrams leaves the set, and is read in every
 * turn until it brings none. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "epoll.h"
#include "udp.h"

enum {
	/* Datagrams of a turn: to leave the set and to join it again costs less than it saves. */
	EPOLL_UDP_MANY = 16,
	/* Turns: how often the set is looked at while no socket is in it, but for what the worker
	 * itself watches. */
	EPOLL_UDP_LOOK = 4,
};

struct epoll_udp {
	struct epoll epoll; /* must be first: see epoll.h */
	struct udp udp;
	struct udp_receiver *receiver;
	unsigned read_again; /* sockets outside the set, to be read in the next turn */
	unsigned unseen;     /* turns since the last look at the set */
};

static void epoll_udp_event(struct op *op, int ready, uint32_t flags);

static void epoll_udp_interest(struct udp_socket *s)
{
	struct acceptor *a = s->acceptor;
	uint32_t events = (s->armed ? EPOLLIN : 0U) | (s->blocked ? EPOLLOUT : 0U);
	bool joins = !s->again || s->blocked;
	int rc;

	if (a->fd < 0 || (!joins && !s->polled))
		return;
	a->op.done = epoll_udp_event;
	rc = epoll_change(a->worker,
			  !joins      ? EPOLL_CTL_DEL
			  : s->polled ? EPOLL_CTL_MOD
				      : EPOLL_CTL_ADD,
			  a->fd, events, &a->op);
	s->polled = joins && rc == 0;
}

static void epoll_udp_take(struct epoll_udp *e, struct udp_socket *s)
{
	unsigned received = udp_ready_receive(e->receiver, s);
	bool again = received >= (s->again ? 1U : (unsigned)EPOLL_UDP_MANY);

	if (again == s->again)
		return;
	s->again = again;
	epoll_udp_interest(s);
	if (!again && !s->polled && s->acceptor->fd >= 0)
		s->again = true; /* no memory in the kernel: tried anew in the next turn */
	else
		e->read_again += again ? 1 : -1U;
}

static void epoll_udp_event(struct op *op, int ready, uint32_t flags)
{
	struct acceptor *a = container_of(op, struct acceptor, op);
	struct epoll_udp *e = a->worker->engine_state;
	struct udp_socket *s = udp_socket_of(&e->udp, a);

	(void)flags;
	if (unlikely(ready & EPOLLOUT) && s->blocked) {
		s->blocked = false;
		udp_set_receiving(s);
	}
	if ((ready & EPOLLIN) && s->armed)
		epoll_udp_take(e, s);
}

static bool epoll_udp_send(struct worker_hook *hook)
{
	struct epoll_udp *e = container_of(hook, struct epoll_udp, udp.hook);

	udp_ready_send(hook);
	return e->read_again > 0;
}

static void epoll_udp_wait(struct worker *w, bool block)
{
	struct epoll_udp *e = w->engine_state;

	if (e->read_again < e->udp.count || ++e->unseen >= EPOLL_UDP_LOOK) {
		e->unseen = 0;
		epoll_wait_turn(w, block);
	} else {
		worker_awake(w);
	}
	for (unsigned i = 0; e->read_again && i < e->udp.count; i++)
		if (e->udp.sockets[i].again)
			epoll_udp_take(e, &e->udp.sockets[i]);
}

static void epoll_udp_receive(struct udp_socket *s, bool on)
{
	(void)on;
	epoll_udp_interest(s);
}

static void epoll_udp_listen(struct worker *w, struct acceptor *a, bool on)
{
	struct epoll_udp *e = w->engine_state;

	udp_listen(udp_socket_of(&e->udp, a), on);
}

static void epoll_udp_settle(struct worker *w)
{
	struct epoll_udp *e = w->engine_state;

	udp_settle(&e->udp);
}

static int epoll_udp_start(struct epoll_udp *e, struct worker *w, struct reason *reason)
{
	int rc = epoll_start(&e->epoll, w, reason);

	if (rc < 0)
		return rc;
	e->udp.receive = epoll_udp_receive;
	e->udp.await_room = epoll_udp_interest;
	rc = udp_init(&e->udp, w, epoll_udp_send, reason);
	if (rc < 0)
		close(e->epoll.fd);
	return rc;
}

static int epoll_udp_init(struct worker *w, struct reason *reason)
{
	struct epoll_udp *e = calloc(1, sizeof(*e));
	int rc;

	if (!e)
		return reason_set(reason, -ENOMEM, "epoll: no memory");
	w->engine_state = e;
	e->receiver = udp_receiver_new(w);
	rc = e->receiver ? epoll_udp_start(e, w, reason)
			 : reason_set(reason, -ENOMEM, "epoll: no memory");
	if (rc < 0) {
		udp_receiver_free(e->receiver, w);
		free(e);
		w->engine_state = NULL;
	}
	return rc;
}

static void epoll_udp_fini(struct worker *w)
{
	struct epoll_udp *e = w->engine_state;

	udp_fini(&e->udp);
	udp_receiver_free(e->receiver, w);
	close(e->epoll.fd);
	free(e);
	w->engine_state = NULL;
}

extern const struct engine engine_epoll_udp;

const struct engine engine_epoll_udp = {
	.name = "epoll",
	UDP_ENGINE,
	.sample_turns = 8,
	.features = UDP_FEATURES | FEATURE_BIT(socket_busy_poll),
	.init = epoll_udp_init,
	.fini = epoll_udp_fini,
	.listen = epoll_udp_listen,
	.settle = epoll_udp_settle,
	.watch = epoll_watch,
	.wait = epoll_udp_wait,
};
