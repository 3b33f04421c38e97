/* Engines `epoll` and `io_uring-poll`, transport `udp`: see udp.h.  Both wait until a socket has
 * input or room, and receive and send by system calls.  They differ only in how they wait. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "syscall.h"
#include "udp.h"

/* ---- Receiving, when sockets are ready ---- */

/* Buffers for one recvmmsg(), shared by all sockets of a worker. */
struct udp_receiver {
	unsigned max;
	unsigned ready;                     /* messages before this one have a chunk */
	struct chunk *chunks[UDP_RECEIVES]; /* NULL: allocated by the next call */
	struct mmsghdr messages[UDP_RECEIVES];
	struct iovec iov[UDP_RECEIVES];
	struct sockaddr_in6 names[UDP_RECEIVES];
	char control[UDP_RECEIVES][UDP_CONTROL] __attribute__((aligned(8)));
};

static struct udp_receiver *udp_receiver_new(const struct worker *w)
{
	struct udp_receiver *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->max = MAX(MIN((unsigned)UDP_RECEIVES, w->pool.keep), 1U);
	for (unsigned i = 0; i < UDP_RECEIVES; i++)
		r->messages[i].msg_hdr = (struct msghdr){ .msg_name = &r->names[i],
							  .msg_namelen = sizeof(r->names[i]),
							  .msg_iov = &r->iov[i],
							  .msg_iovlen = 1,
							  .msg_control = r->control[i],
							  .msg_controllen = UDP_CONTROL };
	return r;
}

static void udp_receiver_free(struct udp_receiver *r, struct worker *w)
{
	for (unsigned i = 0; r && i < UDP_RECEIVES; i++)
		if (r->chunks[i])
			chunk_put(&w->pool, r->chunks[i]);
	free(r);
}

/* Prepares the buffers; returns the number of datagrams for which there is memory. */
static unsigned receiver_prepare(struct udp_receiver *r, const struct udp_socket *s)
{
	struct pool *p = &s->udp->worker->pool;

	for (; r->ready < r->max; r->ready++) {
		unsigned n = r->ready;

		if (r->chunks[n])
			continue;
		if (p->free_count <= p->keep)
			break;
		r->chunks[n] = chunk_get(p);
		s->udp->worker->pool_posted++;
		r->iov[n] = (struct iovec){ r->chunks[n]->base, p->chunk_size };
	}
	return r->ready;
}

/* Delivers a datagram.  If the service has consumed it at once, its chunk is used again, while it
 * is in the cache.  Else the next call gets a new chunk. */
static void receiver_take(struct udp_receiver *r, unsigned i, struct udp_socket *s)
{
	struct pool *p = &s->udp->worker->pool;
	struct msghdr *msg = &r->messages[i].msg_hdr;
	struct udp_datagram d = {
		.name = msg->msg_name,
		.name_bytes = msg->msg_namelen,
		.flags = msg->msg_flags,
		.msg = msg,
		.chunk = r->chunks[i],
		.data = r->chunks[i]->base,
		.bytes = r->messages[i].msg_len,
	};

	udp_arrived(s, &d);
	msg->msg_namelen = sizeof(r->names[i]);
	msg->msg_controllen = UDP_CONTROL;
	if (r->chunks[i]->refs > 1) { /* a connection still holds data in it */
		chunk_put(p, r->chunks[i]);
		r->chunks[i] = NULL;
		r->ready = MIN(r->ready, i);
		s->udp->worker->pool_posted--;
	}
}

/* Receives what has arrived, by at most UDP_CALLS calls: a busy socket must not use the whole turn.
 * Returns the number of datagrams. */
static unsigned udp_ready_receive(struct udp_receiver *r, struct udp_socket *s)
{
	struct worker *w = s->udp->worker;
	unsigned received = 0;

	s->udp->now_ns = clock_coarse_ns();
	for (unsigned call = 0; call < UDP_CALLS && s->want_in; call++) {
		unsigned max = receiver_prepare(r, s);
		long n;

		if (max == 0) {
			stat_add(w->stats.starved, 1);
			s->starved = true;
			udp_set_interest(s);
			break;
		}
		stat_add(w->stats.sys_recv, 1);
		n = syscall6(SYS_recvmmsg, s->acceptor->fd, (long)r->messages, max, MSG_DONTWAIT, 0,
			     0);
		for (long i = 0; i < n; i++)
			receiver_take(r, (unsigned)i, s);
		received += (unsigned)MAX(n, 0);
		if (n < (long)max && n != -EINTR)
			break;
	}
	return received;
}

/* Sends messages of b from *at on, as many as the kernel takes, or skips one that it refuses.
 * False: the kernel takes no more. */
static bool send_some(struct udp_socket *s, struct udp_batch *b, unsigned *at)
{
	struct worker *w = s->udp->worker;
	struct msghdr *msg = &b->messages[*at].msg_hdr;
	unsigned left = b->count - *at;
	long n;

	stat_add(w->stats.sys_send, 1);
	if (left > 1)
		n = syscall6(SYS_sendmmsg, s->acceptor->fd, (long)&b->messages[*at], left,
			     MSG_DONTWAIT | MSG_NOSIGNAL, 0, 0);
	else if (msg->msg_control || msg->msg_iovlen > 1)
		n = syscall6(SYS_sendmsg, s->acceptor->fd, (long)msg, MSG_DONTWAIT | MSG_NOSIGNAL,
			     0, 0, 0);
	else
		n = syscall6(SYS_sendto, s->acceptor->fd, (long)msg->msg_iov->iov_base,
			     (long)msg->msg_iov->iov_len, MSG_DONTWAIT | MSG_NOSIGNAL,
			     (long)msg->msg_name, msg->msg_namelen);
	if (left == 1 && n >= 0)
		n = 1;
	if (n == -EINTR)
		return true;
	if (n < 0 && udp_is_full((int)-n))
		return false;
	if (udp_batch_sent(s, b, *at, *at + (unsigned)MAX(n, 1), n < 0 ? (int)-n : 0,
			   w->turn.timing ? clock_ns() : 0))
		*at += (unsigned)MAX(n, 1);
	else
		*at = b->count;
	return true;
}

static void send_all(struct udp_socket *s, struct udp_batch *b)
{
	while (s->out && !s->blocked) {
		unsigned at = 0;

		udp_batch_fill(s, b);
		while (at < b->count && !s->blocked)
			if (!send_some(s, b, &at))
				udp_block(s);
		if (b->count == 0)
			udp_batch_sent(s, b, 0, 0, 0, 0);
	}
}

bool udp_ready_send(struct worker_hook *hook)
{
	struct udp *u = container_of(hook, struct udp, hook);

	for (unsigned i = 0; i < u->count; i++) {
		struct udp_socket *s = &u->sockets[i];

		if (s->out)
			send_all(s, &u->batch);
		if (s->starved)
			s->starved = pool_is_short(&u->worker->pool);
		udp_set_interest(s);
	}
	return false;
}

struct reactor {
	struct udp udp; /* must be first: see udp.h */
	struct udp_receiver *receiver;
	/* epoll: sockets outside the set, which are read in the next turn; turns since the set was
	 * last waited on */
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
	/* A socket that receives this many datagrams in a turn leaves the set: leaving and
	 * rejoining then costs less than it saves. */
	EPOLL_UDP_MANY = 16,
	/* While all sockets are outside the set, this is the number of turns until it is waited on
	 * again: it also has the worker's own descriptors, such as its mailbox. */
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

/* Updates the socket's registration in the epoll set after its state has changed. */
static void epoll_udp_interest(struct udp_socket *s)
{
	uint32_t events = s->want_out ? EPOLLOUT : 0;
	struct acceptor *a = s->acceptor;
	int rc;

	if (s->want_in && !s->again)
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
	if (unlikely(ready & EPOLLOUT) && s->want_out)
		udp_writable(s);
	if ((ready & EPOLLIN) && s->want_in)
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

	s->polled_in = true;
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
	s->polled_in = false;
	if (ready > 0 && s->want_in)
		udp_ready_receive(r->receiver, s);
	if (s->want_in && a->fd >= 0)
		poll_udp_await_input(s);
}

static void poll_udp_watch(struct udp_socket *s)
{
	struct acceptor *a = s->acceptor;

	a->op.done = poll_udp_event;
	if (s->want_in && !s->polled_in)
		poll_udp_await_input(s);
	else if (!s->want_in && s->polled_in)
		ring_cancel(&s->udp->ring, &a->op);
	udp_ring_poll_out(s);
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
