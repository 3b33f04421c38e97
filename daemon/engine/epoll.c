/* Engine `epoll`: level-triggered readiness, the classic server and the
 * baseline of every comparison.
 *
 * The epoll set is changed only when the interest really changes; EPOLLOUT is armed only while tx
 * could not be sent.  c->events holds the events that are armed. */
#include <errno.h>
#include <linux/time_types.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "batch.h"
#include "conn.h"
#include "engine.h"
#include "epoll.h"
#include "readiness.h"
#include "sockaddr.h"
#include "syscall.h"
#include "util.h"
#include "worker.h"

/* include/uapi/linux/eventpoll.h of Linux 6.9, which Debian 12 does not have;
 * epoll(7) of man-pages 6.8. */
struct nb_epoll_params {
	uint32_t busy_poll_usecs;
	uint16_t busy_poll_budget;
	uint8_t prefer_busy_poll;
	uint8_t pad;
};
#define NB_EPIOCSPARAMS _IOW(0x8A, 0x01, struct nb_epoll_params)

/* Of conn.flags: the socket is not in the epoll set. */
enum { EPOLL_LEFT = CONN_ENGINE << 0 };
static_assert((int)EPOLL_LEFT < (int)READINESS_FLAGS, "flags overlap those of readiness.c");

int epoll_change(struct worker *w, int operation, int fd, uint32_t events, struct op *op)
{
	struct epoll *e = w->engine_state;
	struct epoll_event event = { .events = events, .data.ptr = op };

	stat_add(w->stats.sys_epoll_ctl, 1);
	return epoll_ctl(e->fd, operation, fd, &event) < 0 ? -errno : 0;
}

static void epoll_arm(struct conn *c)
{
	int operation = c->flags & EPOLL_LEFT ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
	int rc = epoll_change(c->worker, operation, c->fd, c->events, &c->recv_op);

	if (rc < 0) /* Outside of the set c would never get an event again. */
		conn_failed(c, -rc);
	else
		c->flags &= ~(uint32_t)EPOLL_LEFT;
}

static void epoll_interest(struct conn *c, uint32_t events)
{
	if (events == c->events)
		return;
	c->events = events;
	if (!(c->flags & CONN_FRESH))
		epoll_arm(c);
}

static void epoll_leave(struct conn *c)
{
	epoll_change(c->worker, EPOLL_CTL_DEL, c->fd, 0, NULL);
	c->events = 0;
	c->flags |= EPOLL_LEFT;
}

/* The peer has disconnected while c does not receive.  Takes the socket out of the epoll set, as
 * epoll would report the disconnection in every turn.  A Unix peer that closed without an error may
 * have left input to be read later; sends to it fail at once. */
static void epoll_gone(struct conn *c)
{
	int error = 0;

	conn_get_option(c, SOL_SOCKET, SO_ERROR, &error, sizeof(error));
	if (error) {
		conn_failed(c, error);
		return;
	}
	if (!(c->flags & EPOLL_LEFT))
		epoll_leave(c);
	conn_ready(c);
}

/* Handles every event except input of an open connection. */
__attribute__((noinline)) static void epoll_rare_event(struct conn *c, int ready)
{
	if (c->flags & CONN_CLOSING)
		return;
	if (ready & EPOLLOUT)
		conn_ready(c);
	if ((ready & EPOLLIN) && (c->events & EPOLLIN)) {
		/* Most connections are closed in the turn of their FIN.  So EPOLLIN is disarmed
		 * only when the event is reported a second time. */
		if (!(c->flags & (CONN_EOF | CONN_NO_MEMORY | CONN_RAW)))
			readiness_recv(c, false);
		else if (c->flags & (CONN_EOF | CONN_NO_MEMORY))
			epoll_interest(c, c->events & ~(uint32_t)EPOLLIN);
		else
			conn_ready(c);
		return;
	}
	if (ready & (EPOLLERR | EPOLLHUP))
		epoll_gone(c);
}

static void epoll_event(struct op *op, int ready, uint32_t flags)
{
	struct conn *c = container_of(op, struct conn, recv_op);

	(void)flags;
	if (likely(ready == EPOLLIN && c->events == EPOLLIN &&
		   !(c->flags & (CONN_CLOSING | CONN_EOF | CONN_NO_MEMORY | CONN_RAW))))
		readiness_recv(c, false);
	else
		epoll_rare_event(c, ready);
}

/* Did c's first packets arrive through a queue of a network card, which can be polled?  Packets of
 * loopback do not. */
static bool epoll_has_queue(struct conn *c)
{
	unsigned id = 0;

	return conn_get_option(c, SOL_SOCKET, SO_INCOMING_NAPI_ID, &id, sizeof(id)) == 0 && id > 0;
}

static int epoll_open(struct conn *c)
{
	struct epoll *e = c->worker->engine_state;

	if (unlikely(e->polls_nic && !e->on_nic))
		e->on_nic = epoll_has_queue(c);
	c->recv_op.done = epoll_event;
	c->events = EPOLLIN;
	c->flags |= EPOLL_LEFT;
	if (conn_may_receive(c)) /* else the event of data asks for a chunk */
		readiness_recv(c, false);
	return 0;
}

static void epoll_keep_open(struct conn *c)
{
	if (c->events)
		epoll_arm(c);
}

static void epoll_recv(struct conn *c, bool on)
{
	epoll_interest(c, on ? c->events | EPOLLIN : c->events & ~(uint32_t)EPOLLIN);
}

static void epoll_flush(struct conn *c)
{
	bool sent = readiness_send(c);

	if (likely(sent && c->events == EPOLLIN))
		return;
	if (!(c->flags & CONN_CLOSING))
		epoll_interest(c, sent ? c->events & ~(uint32_t)EPOLLOUT : c->events | EPOLLOUT);
}

/* While stores have requests of c in flight, its socket stays open after the close.  It must leave
 * the epoll set: a reset by the peer is level-triggered and would wake the worker in every turn, on
 * a hung device for ever. */
static void epoll_close(struct conn *c)
{
	if (c->io.count > 0 && !(c->flags & (EPOLL_LEFT | CONN_FRESH)))
		epoll_leave(c);
}

static void epoll_accept(struct op *op, int ready, uint32_t flags);

/* A shared socket is added with EPOLLEXCLUSIVE: the kernel wakes the first worker that sleeps. */
static void epoll_watch_listener(struct worker *w, struct acceptor *a, bool on)
{
	uint32_t events = EPOLLIN | (a->shared ? EPOLLEXCLUSIVE : 0);

	int rc;

	a->op.done = epoll_accept;
	rc = epoll_change(w, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, a->fd, events, &a->op);
	if (on && rc < 0) /* no memory, or the user's limit of watches: tried again later */
		worker_pause_accept(a, -rc);
}

static void epoll_accept(struct op *op, int ready, uint32_t flags)
{
	struct acceptor *a = container_of(op, struct acceptor, op);

	(void)ready, (void)flags;
	readiness_accept(a);
	/* Adding the socket again moves this worker to the end of the kernel's wait queue: the next
	 * connection wakes another worker. */
	if (a->shared && a->fd >= 0 && !a->paused) {
		epoll_watch_listener(a->worker, a, false);
		epoll_watch_listener(a->worker, a, true);
	}
}

int epoll_watch(struct worker *w, int fd, struct op *op)
{
	return epoll_change(w, EPOLL_CTL_ADD, fd, EPOLLIN, op);
}

/* Accepted sockets inherit the listening socket's value, which costs no system call per connection.
 * A Unix socket has no device to poll. */
static void epoll_socket_busy_poll(struct worker *w)
{
	int us = (int)(options_kernel_polls_ns(&w->options) / NS_PER_US);
	unsigned local = 0;

	for (unsigned i = 0; i < w->accept.count; i++) {
		int fd = w->accept.acceptors[i].fd;

		if (sockaddr_fd_is_local(fd))
			local++;
		else if (setsockopt(fd, SOL_SOCKET, SO_BUSY_POLL, &us, sizeof(us)) < 0)
			return;
	}
	if (local == 0 || local < w->accept.count)
		worker_feature(w, FEATURE_socket_busy_poll);
}

int epoll_start(struct epoll *e, struct worker *w, struct reason *reason)
{
	e->fd = epoll_create1(EPOLL_CLOEXEC);
	if (e->fd < 0)
		return reason_set(reason, -errno, "epoll_create1: %s", strerror(errno));
	if (w->spin.max_ns)
		worker_feature(w, FEATURE_busy_poll);
	if (options_kernel_polls_ns(&w->options))
		epoll_socket_busy_poll(w);
	return 0;
}

/* A budget of up to 64 needs no capability.  A card's irq_suspend_timeout acts only with
 * prefer_busy_poll. */
void epoll_poll_nic(struct epoll *e, struct worker *w)
{
	uint64_t polls_ns = options_kernel_polls_ns(&w->options);
	struct nb_epoll_params params = {
		.busy_poll_usecs = (uint32_t)MAX(polls_ns / NS_PER_US, 1),
		.busy_poll_budget = 64,
		.prefer_busy_poll = 1,
	};

	e->polls_nic = polls_ns && worker_wants(w, FEATURE_epoll_busy_poll) &&
		       ioctl(e->fd, NB_EPIOCSPARAMS, &params) == 0;
	if (e->polls_nic)
		worker_feature(w, FEATURE_epoll_busy_poll);
}

static int epoll_init(struct worker *w, struct reason *reason)
{
	struct epoll *e = calloc(1, sizeof(*e));
	int rc;

	if (!e)
		return reason_set(reason, -ENOMEM, "epoll: no memory");
	rc = epoll_start(e, w, reason);
	if (rc < 0) {
		free(e);
		return rc;
	}
	epoll_poll_nic(e, w);
	w->engine_state = e;
	return 0;
}

static void epoll_fini(struct worker *w)
{
	struct epoll *e = w->engine_state;

	close(e->fd);
	free(e);
	w->engine_state = NULL;
}

static inline int epoll_poll(struct worker *w, int timeout_ms)
{
	struct epoll *e = w->engine_state;

	stat_add(w->stats.sys_epoll_wait, 1);
	return (int)syscall6(SYS_epoll_pwait, e->fd, (long)e->events, ARRAY_SIZE(e->events),
			     timeout_ms, 0, 0);
}

/* Sleeps until the deadline: for less than a second to the nanosecond on Linux 5.11 and later, else
 * to the millisecond, rounded up. */
static int epoll_sleep(struct worker *w, uint64_t deadline_ns)
{
	static _Atomic bool absent; /* epoll_pwait2() */
	struct epoll *e = w->engine_state;
	uint64_t now_ns, left_ns;
	struct __kernel_timespec ts;
	int n;

	if (!deadline_ns)
		return epoll_poll(w, -1);
	now_ns = clock_ns();
	if (now_ns >= deadline_ns)
		return epoll_poll(w, 0);
	left_ns = deadline_ns - now_ns;
	if (left_ns < NS_PER_S && !atomic_load_explicit(&absent, memory_order_relaxed)) {
		ts = (struct __kernel_timespec){ .tv_nsec = (long long)left_ns };
		stat_add(w->stats.sys_epoll_wait, 1);
		n = (int)syscall6(SYS_epoll_pwait2, e->fd, (long)e->events, ARRAY_SIZE(e->events),
				  (long)&ts, 0, 0);
		if (n != -ENOSYS && n != -EPERM) /* EPERM: a filter that does not know it */
			return n;
		atomic_store_explicit(&absent, true, memory_order_relaxed);
	}
	return epoll_poll(w, (int)MIN((left_ns + NS_PER_MS - 1) / NS_PER_MS, 3600 * 1000));
}

/* Polls the set repeatedly before it sleeps, as not all events come through a queue
 * that the kernel can poll. */
static int epoll_spin(struct worker *w)
{
	uint64_t end_ns = w->spin.begun_ns + w->spin.ns, wake_ns = w->deadlines.wake_ns;
	int n;

	if (wake_ns)
		end_ns = MIN(end_ns, wake_ns);
	do
		n = epoll_poll(w, 0);
	while (n == 0 && clock_ns() < end_ns);
	return n;
}

/* Spins first if `busy-poll` says so, then sleeps until w->deadlines.wake_ns. */
__attribute__((noinline)) static int epoll_poll_timed(struct worker *w, bool block)
{
	const struct epoll *e = w->engine_state;
	bool spins = block && w->spin.max_ns && !e->on_nic;
	uint64_t delay_ns;
	int n = 0;

	if (spins) {
		if (worker_begin_spin(w))
			n = epoll_spin(w);
	} else if (block && w->batch.on && batch_check_due(w)) {
		n = epoll_poll(w, 0);
		batch_input_checked(w, n > 0);
	} else if (block && w->batch.on) {
		delay_ns = batch_delay(w);
		if (delay_ns)
			batch_sleep(w, delay_ns);
	}
	if (n == 0)
		n = block ? epoll_sleep(w, w->deadlines.wake_ns) : epoll_poll(w, 0);
	if (spins)
		worker_end_spin(w);
	return n;
}

void epoll_wait_turn(struct worker *w, bool block)
{
	struct epoll *e = w->engine_state;
	int n;

	if (likely(block && !w->deadlines.wake_ns && !w->spin.max_ns && !w->batch.on))
		n = epoll_poll(w, -1);
	else
		n = epoll_poll_timed(w, block);
	if (unlikely(n <= 0)) {
		if (n < 0)
			worker_wait_failed(w, "epoll_wait", -n);
		worker_awake(w);
		return;
	}
	worker_awake(w);
	for (int i = 0; i < n; i++) {
		struct op *op = e->events[i].data.ptr;

		op->done(op, (int)e->events[i].events, 0);
	}
}

const struct engine engine_epoll = {
	.name = "epoll",
	.transport = &transport_tcp,
	.sample_turns = 8,
	.features = FEATURE_BIT(busy_poll) | FEATURE_BIT(socket_busy_poll) | FEATURE_BIT(rcvlowat) |
		    FEATURE_BIT(drop) | FEATURE_BIT(epoll_busy_poll),
	.init = epoll_init,
	.fini = epoll_fini,
	.watch_listener = epoll_watch_listener,
	.watch = epoll_watch,
	.wait = epoll_wait_turn,
	.open = epoll_open,
	.keep_open = epoll_keep_open,
	.recv = epoll_recv,
	.flush = epoll_flush,
	.close = epoll_close,
};
