/* Engine `rdma`: sockets.  See pair_socket.h.
 *
 * They are registered edge-triggered and stay in the epoll set while a connection's
 * input is off.  When it is on again, the registration is repeated, and epoll then
 * reports what is left in the socket. */
#include "pair_socket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cm.h"
#include "conn.h"
#include "log.h"
#include "parse.h"
#include "readiness.h"
#include "sockaddr.h"

/* ---- A socket ---- */

static int rdma_exchange_set(struct conn *c, int operation)
{
	const struct rdma *e = c->worker->engine_state;
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
				     .data.ptr = &c->recv_op };

	stat_add(c->worker->stats.sys_epoll_ctl, 1);
	return epoll_ctl(e->epoll_fd, operation, c->fd, &event) < 0 ? -errno : 0;
}

static void rdma_exchange_event(struct op *op, int ready, uint32_t flags)
{
	struct conn *c = container_of(op, struct conn, recv_op);

	(void)flags;
	if (c->flags & CONN_CLOSING)
		return;
	if (ready & EPOLLOUT)
		conn_ready(c);
	if (!(c->flags & (CONN_EOF | CONN_RECV_OFF)) && readiness_recv(c, true) == READINESS_MORE)
		rdma_exchange_recv(c);
}

int rdma_exchange_open(struct conn *c)
{
	struct rdma_exchange *x = calloc(1, sizeof(*x));

	if (!x)
		return -ENOMEM;
	x->conn = c;
	c->engine_state = x;
	c->recv_op.done = rdma_exchange_event;
	return rdma_exchange_set(c, EPOLL_CTL_ADD);
}

void rdma_exchange_recv(struct conn *c)
{
	int rc = rdma_exchange_set(c, EPOLL_CTL_MOD);

	if (rc < 0)
		conn_failed(c, -rc);
}

void rdma_exchange_flush(struct conn *c)
{
	if (c->tx.head)
		readiness_send(c); /* an event tells when the rest can be sent */
}

void rdma_exchange_close(struct conn *c)
{
	if (c->engine_state)
		rdma_pairs_part(c->engine_state);
}

void rdma_exchange_release(struct conn *c)
{
	rdma_exchange_close(c);
	stat_add(c->worker->stats.sys_close, 1);
	close(c->fd);
	free(c->engine_state);
}

/* ---- Accepting ---- */

enum { RDMA_ACCEPTS = 16 }; /* sockets that one turn accepts */

struct rdma_listening {
	struct op op;
	struct worker *worker;
	int fd;
};

struct rdma_exchanges {
	struct worker *worker;
	struct timer retry; /* armed while none is accepted for lack of descriptors or memory */
	unsigned count;
	struct rdma_listening sockets[];
};

/* A socket on its way to its worker. */
struct rdma_arrival {
	struct call call;
	struct worker *worker;
	int fd;
};

/* Runs on that worker or, if it has ended, on its owner's thread. */
static void rdma_arrived(struct call *call)
{
	struct rdma_arrival *arrival = container_of(call, struct rdma_arrival, call);
	struct worker *w = arrival->worker;

	if (w->engine_state && !w->turn.stop)
		conn_new(w, arrival->fd);
	else
		close(arrival->fd);
	free(arrival);
}

static void rdma_exchange_place(struct worker *w, int fd, const struct sockaddr_storage *peer)
{
	struct worker *to = w->team.count > 1 ? rdma_cm_choose(w, peer) : w;
	struct rdma_arrival *arrival;

	if (to == w) {
		conn_new(w, fd);
		return;
	}
	arrival = calloc(1, sizeof(*arrival));
	if (!arrival) {
		close(fd);
		return;
	}
	*arrival = (struct rdma_arrival){ .call.fn = rdma_arrived, .worker = to, .fd = fd };
	mailbox_post(&to->mailbox, &arrival->call);
}

static void rdma_exchanges_interest(struct rdma_exchanges *all, uint32_t events)
{
	const struct rdma *e = all->worker->engine_state;

	for (unsigned i = 0; i < all->count; i++) {
		struct epoll_event event = { .events = events, .data.ptr = &all->sockets[i].op };

		epoll_ctl(e->epoll_fd, EPOLL_CTL_MOD, all->sockets[i].fd, &event);
		stat_add(all->worker->stats.sys_epoll_ctl, 1);
	}
}

static void rdma_exchanges_due(struct timer *t, uint64_t now_ns)
{
	struct rdma_exchanges *all = container_of(t, struct rdma_exchanges, retry);

	(void)now_ns;
	all->worker->owner->paused(all->worker, 0);
	rdma_exchanges_interest(all, EPOLLIN);
}

/* Like worker_pause_accept(): without a pause epoll would report the
 * waiting sockets again at once. */
static void rdma_exchanges_pause(struct rdma_exchanges *all, int error)
{
	struct worker *w = all->worker;

	stat_add(w->stats.accept_paused, 1);
	w->owner->paused(w, error);
	rdma_exchanges_interest(all, 0);
	all->retry.due = rdma_exchanges_due;
	worker_arm(w, &all->retry, clock_ns() + WORKER_RETRY_NS);
}

static void rdma_exchange_accept(struct op *op, int ready, uint32_t flags)
{
	const struct rdma_listening *from = container_of(op, struct rdma_listening, op);
	struct worker *w = from->worker;
	const struct rdma *e = w->engine_state;

	(void)ready, (void)flags;
	for (unsigned i = 0; i < RDMA_ACCEPTS && from->fd >= 0; i++) {
		struct sockaddr_storage peer = { .ss_family = AF_UNSPEC };
		socklen_t length = sizeof(peer);
		int fd = accept4(from->fd, (struct sockaddr *)&peer, &length, SOCK_CLOEXEC);

		stat_add(w->stats.sys_accept, 1);
		if (fd >= 0)
			rdma_exchange_place(w, fd, &peer);
		else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			rdma_exchanges_pause(e->exchanges, errno);
		if (fd < 0)
			return;
	}
}

/* ---- Listening ---- */

/* The socket, or -errno. */
static int rdma_exchange_bind(const struct sockaddr_storage *address)
{
	int on = 1, rc = 0, fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (address->ss_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (bind(fd, (const struct sockaddr *)address, sockaddr_size(address)) < 0 ||
	    listen(fd, WORKER_BACKLOG) < 0)
		rc = -errno;
	if (rc == 0)
		return fd;
	close(fd);
	return rc;
}

void rdma_exchanges_open(struct worker *w)
{
	struct rdma *e = w->engine_state;
	unsigned count = w->accept.endpoint_count;
	char text[ADDRESS_TEXT_MAX];

	if (count > 0 && (w->service->flags & SERVICE_EXCHANGES))
		e->exchanges =
			calloc(1, sizeof(*e->exchanges) + count * sizeof(e->exchanges->sockets[0]));
	if (!e->exchanges)
		return;
	e->exchanges->worker = w;
	for (unsigned i = 0; i < count; i++) {
		struct rdma_listening *s = &e->exchanges->sockets[e->exchanges->count];

		if (rdma_cm_is_iwarp(w, i)) /* its queue pairs need the connection manager */
			continue;
		*s = (struct rdma_listening){ .op.done = rdma_exchange_accept, .worker = w };
		s->fd = rdma_exchange_bind(&w->accept.endpoints[i]);
		if (s->fd >= 0)
			e->exchanges->count++;
		else
			log_write(
				LOG_WARNING, w->listener,
				"listener '%s': bind tcp %s: %s; clients of the connection manager "
				"(-R) are served, others need a port that neither another program "
				"nor an iWARP device has",
				w->listener, format_sockaddr(&w->accept.endpoints[i], text),
				strerror(-s->fd));
	}
}

void rdma_exchanges_accept(struct worker *w, bool on)
{
	struct rdma *e = w->engine_state;

	for (unsigned i = 0; e->exchanges && i < e->exchanges->count; i++) {
		struct rdma_listening *s = &e->exchanges->sockets[i];
		int rc = on && s->fd >= 0 ? rdma_watch(w, s->fd, &s->op) : 0;

		if (rc < 0)
			log_write(LOG_WARNING, w->listener,
				  "listener '%s': clients without -R are not served: epoll_ctl: %s",
				  w->listener, strerror(-rc));
		if ((on && rc == 0) || s->fd < 0)
			continue;
		close(s->fd); /* an event of it may be left in this turn */
		s->fd = -1;
	}
	if (!on && e->exchanges)
		deadline_drop(&w->deadlines, &e->exchanges->retry);
}

void rdma_exchanges_close(struct worker *w)
{
	struct rdma *e = w->engine_state;

	rdma_exchanges_accept(w, false);
	free(e->exchanges);
	e->exchanges = NULL;
}
