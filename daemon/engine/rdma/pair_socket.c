/* Engine `rdma`: a queue pair that was agreed on over a socket.  See pair_socket.h.
 *
 * The connection manager finds the route to the client's GID, and so the device, the port and our
 * own GID, and has the kernel ask for the Ethernet address.  It makes the queue pair as well
 * (INIT), but connects nothing: the other steps are here.  The step to RTR looks for the Ethernet
 * address once more, at that port alone, so a thread makes it (step.h). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cm.h"
#include "conn.h"
#include "log.h"
#include "pair_socket.h"
#include "parse.h"
#include "rdma_engine.h"
#include "readiness.h"
#include "sockaddr.h"
#include "step.h"

enum {
	PAIR_ROUTE_MS = 2000, /* time limit for finding the route */
	PAIR_HOPS = 255,      /* as perftest's clients */
	PAIR_TIMEOUT = 14,    /* 67 ms until a packet is sent again */
	PAIR_RETRIES = 7,     /* the most */
	PAIR_PSN_MASK = 0xffffff,
};

/* Logs why the client gets no queue pair; returns rc. */
static int rdma_pair_refuse(const struct conn *c, int rc, const char *why)
{
	conn_warn(c, "no queue pair: %s", why);
	return rc;
}

/* ---- MTU ---- */

/* The smallest MTU of the device's RoCE ports, as enum ibv_mtu; 0: it has none. */
static unsigned rdma_pair_mtu_of(struct ibv_context *verbs)
{
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	unsigned least = 0;

	if (verbs->device->transport_type != IBV_TRANSPORT_IB ||
	    ibv_query_device(verbs, &device) != 0)
		return 0;
	for (unsigned i = 1; i <= device.phys_port_cnt; i++)
		if (ibv_query_port(verbs, (uint8_t)i, &port) == 0 &&
		    port.link_layer == IBV_LINK_LAYER_ETHERNET &&
		    (!least || port.active_mtu < least))
			least = port.active_mtu;
	return least;
}

/* That of the port with the local address of c, for which the client has asked.  If none has it,
 * only the client's GID will tell the port, so it is the smallest of all. */
int rdma_pair_mtu(struct conn *c)
{
	struct rdma_exchange *x = c->engine_state;
	struct sockaddr_storage local = conn_local_address(c);
	struct in6_addr address = sockaddr_mapped(&local);
	struct ibv_gid_entry entry;
	struct ibv_context **list = rdma_get_devices(NULL);
	unsigned least = 0;

	for (struct ibv_context **at = list; at && *at && !x->interface; at++) {
		unsigned mtu = rdma_pair_mtu_of(*at);

		if (mtu && rdma_gid_find(*at, 0, &address, &entry) == 0) {
			x->interface = entry.ndev_ifindex;
			least = mtu;
		} else if (mtu && (!least || mtu < least)) {
			least = mtu;
		}
	}
	if (list)
		rdma_free_devices(list);
	return least ? (int)least : rdma_pair_refuse(c, -ENODEV, "this host has no RoCE device");
}

/* ---- The route ---- */

static struct sockaddr_storage rdma_pair_address(const uint8_t gid[static PAIR_GID],
						 unsigned interface)
{
	struct sockaddr_storage sa = { .ss_family = AF_INET6 };
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&sa;
	struct sockaddr_in *in = (struct sockaddr_in *)&sa;

	memcpy(&in6->sin6_addr, gid, PAIR_GID);
	if (IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
		in6->sin6_scope_id = interface;
	if (!IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
		return sa;
	sa = (struct sockaddr_storage){ .ss_family = AF_INET };
	memcpy(&in->sin_addr, gid + PAIR_GID - sizeof(in->sin_addr), sizeof(in->sin_addr));
	return sa;
}

/* Can a host have the address?  The kernel's table of routes refuses a network's own ones: this
 * sends nothing, and waits for nothing. */
static int rdma_pair_check(const struct sockaddr_storage *to)
{
	int fd = socket(to->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc = 0;

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)to, sockaddr_size(to)) < 0)
		rc = errno == EACCES ? -EADDRNOTAVAIL : -errno;
	close(fd);
	return rc;
}

/* Of two ports in one network, the client means the one whose address it has connected to. */
static int rdma_pair_resolve(struct rdma_exchange *x, struct rdma_pair *p)
{
	struct sockaddr_storage to = rdma_pair_address(p->agreed.client.gid, x->interface);
	struct sockaddr_storage from = conn_local_address(x->conn);
	struct sockaddr *source = NULL;
	int rc = pair_gid_is_host(p->agreed.client.gid) ? rdma_pair_check(&to) : -EADDRNOTAVAIL;

	if (rc < 0)
		return rc;
	if (x->interface && from.ss_family == to.ss_family) {
		sockaddr_set_port(&from, 0);
		source = (struct sockaddr *)&from;
	}
	return rdma_resolve_addr(p->r->id, source, (struct sockaddr *)&to, PAIR_ROUTE_MS) < 0
		       ? -errno
		       : 0;
}

/* ---- A pair ---- */

static const enum ibv_qp_type rdma_pair_types[] = {
	[PAIR_RC] = IBV_QPT_RC,
	[PAIR_UC] = IBV_QPT_UC,
	[PAIR_UD] = IBV_QPT_UD,
};

/* On failure the caller closes the socket, which frees what is left. */
static int rdma_pair_new(struct rdma_exchange *x, const struct pair *pair)
{
	struct rdma_pair *p = calloc(1, sizeof(*p));
	struct rdma_conn *r = p ? rdma_conn_new() : NULL;
	int rc;

	if (!r) {
		free(p);
		return -ENOMEM;
	}
	*p = (struct rdma_pair){ .next = x->pairs, .exchange = x, .r = r, .agreed = *pair };
	r->pair = x->pairs = p;
	r->type = rdma_pair_types[pair->type];
	r->pair_number = pair->client.number;
	x->count++;
	r->peer = conn_peer_address(x->conn);
	rc = rdma_cm_identify(x->conn->worker, r, pair->type == PAIR_UD, &r->id);
	return rc < 0 ? rc : rdma_pair_resolve(x, p);
}

int rdma_pair(struct conn *c, struct pair *pair)
{
	struct rdma_exchange *x = c->engine_state;
	struct rdma_pair *p = x->pairs;
	int rc;

	while (p && p->agreed.client.number != pair->client.number)
		p = p->next;
	if (p && p->r->state != RDMA_ACCEPTED)
		return -EAGAIN;
	if (p) {
		pair->own = p->agreed.own;
		pair->conn = p->r->conn;
		return 0;
	}
	if (x->count >= PAIRS_MAX)
		return rdma_pair_refuse(c, -EUSERS, "the client has as many as it may");
	rc = rdma_pair_new(x, pair);
	return rc < 0 ? rdma_pair_refuse(c, rc, strerror(-rc)) : -EAGAIN;
}

bool rdma_is_pair(const struct conn *c)
{
	const struct rdma_conn *r = c->engine_state;

	return !conn_is_exchange(c) && r->pair;
}

static void rdma_pair_unlink(struct rdma_pair *p)
{
	struct rdma_pair **at = p->exchange ? &p->exchange->pairs : NULL;

	while (at && *at != p)
		at = &(*at)->next;
	if (at)
		*at = p->next;
	p->exchange = NULL;
}

void rdma_pair_free(struct rdma_pair *p)
{
	rdma_pair_unlink(p);
	free(p);
}

void rdma_pair_gone(struct rdma_pair *p)
{
	const struct rdma_exchange *x = p->exchange;

	rdma_pair_unlink(p);
	if (p->way)
		ibv_destroy_ah(p->way);
	p->way = p->r->pair_way = NULL;
	if (!x)
		return;
	/* Its socket is open, and we have not ended it: the device has, for a request of the
	 * client. */
	if (p->r->conn->end == CONN_END_PEER)
		conn_warn(
			x->conn,
			"its queue pair has failed: the client sent an unsupported request, "
			"such as an atomic operation (ib_atomic_bw), or used an invalid rkey or range");
	conn_close(x->conn, p->r->conn->end);
}

/* The socket ends: detaches its pairs, and frees those without a connection.  May be repeated. */
static void rdma_pairs_part(struct rdma_exchange *x)
{
	while (x->pairs) {
		struct rdma_pair *p = x->pairs;
		struct rdma_conn *r = p->r;

		x->pairs = p->next;
		p->exchange = NULL;
		if (r->conn) {
			r->conn->worker->engine->close(r->conn);
			continue;
		}
		if (r->id)
			rdma_destroy_id(r->id);
		free(p);
		rdma_conn_free(r);
	}
}

/* ---- Setup ---- */

/* The reason why it cannot, or NULL. */
static const char *rdma_pair_begin(struct rdma_conn *r, struct reason *reason)
{
	struct rdma_pair *p = r->pair;
	const struct conn *c = p->exchange->conn;
	struct worker *w = c->worker;
	struct connect_data connect_data = { .data = NULL };
	struct rdma_device *d;
	int rc;

	if (!rdma_pair_mtu_of(r->id->verbs))
		return "the way to the client's GID is no RoCE device";
	d = rdma_device_get(w, r->id->verbs, reason);
	if (!d)
		return reason->text;
	if (w->service->connect && w->service->connect(w, &connect_data) < 0)
		return "the service refuses it";
	rc = rdma_conn_admit(w, d, &r->peer, &connect_data);
	if (rc < 0)
		return rdma_conn_refusal(w, rc);
	rdma_conn_use(r, d, &connect_data);
	return conn_start(w, -1, r) < 0 ? "no memory" : NULL;
}

void rdma_pair_event(struct rdma_conn *r, enum rdma_cm_event_type type)
{
	struct conn *c = r->pair->exchange ? r->pair->exchange->conn : NULL;
	struct reason reason = { "" };
	const char *why = "no RDMA device leads to the client's GID, or nobody there has it";

	if (!c || r->state != RDMA_NEW)
		return;
	if (type == RDMA_CM_EVENT_ADDR_RESOLVED)
		why = rdma_pair_begin(r, &reason);
	if (why) {
		rdma_pair_refuse(c, 0, why);
		conn_close(c, CONN_END_ERROR);
	}
	conn_ready(c);
}

static struct ibv_ah_attr rdma_pair_way(const struct rdma_conn *r)
{
	struct ibv_ah_attr way = { .is_global = 1,
				   .port_num = r->id->port_num,
				   .sl = r->pair->agreed.service_level,
				   .grh = { .traffic_class = r->pair->agreed.traffic_class,
					    .sgid_index = (uint8_t)r->pair->from.gid_index,
					    .hop_limit = PAIR_HOPS } };

	memcpy(&way.grh.dgid, r->pair->agreed.client.gid, PAIR_GID);
	return way;
}

static int rdma_pair_to_rtr(struct rdma_conn *r)
{
	const struct pair *agreed = &r->pair->agreed;
	int reliable = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.qp_access_flags =
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
		.path_mtu = agreed->mtu,
		.dest_qp_num = agreed->client.number,
		.rq_psn = agreed->client.sequence,
		.max_dest_rd_atomic = (uint8_t)agreed->own.reads,
		.min_rnr_timer = RDMA_RNR_TIMER,
		.ah_attr = rdma_pair_way(r),
	};

	return -ibv_modify_qp(r->id->qp, &attr,
			      IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_AV | IBV_QP_PATH_MTU |
				      IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				      (agreed->type == PAIR_RC ? reliable : 0));
}

static int rdma_pair_to_rts(struct rdma_conn *r)
{
	const struct pair *agreed = &r->pair->agreed;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .sq_psn = agreed->own.sequence,
				    .timeout = PAIR_TIMEOUT,
				    .retry_cnt = PAIR_RETRIES,
				    .rnr_retry = PAIR_RETRIES,
				    .max_rd_atomic = (uint8_t)agreed->own.reads };

	int reliable =
		IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;

	return -ibv_modify_qp(r->id->qp, &attr,
			      IBV_QP_STATE | IBV_QP_SQ_PSN |
				      (agreed->type == PAIR_RC ? reliable : 0));
}

/* Resolves the client's Ethernet address, which may take a second: on a thread (step.c).  The
 * kernel does it in the step to RTR, for a queue pair of datagrams when their address handle is
 * created. */
static int rdma_pair_route(struct rdma_conn *r)
{
	struct ibv_ah_attr way = rdma_pair_way(r);

	if (r->pair->agreed.type != PAIR_UD)
		return rdma_pair_to_rtr(r);
	r->pair->way = ibv_create_ah(r->device->pd, &way);
	if (!r->pair->way)
		return errno ? -errno : -EIO;
	return 0;
}

/* The state in which it sends; datagrams need the key that clients expect. */
static int rdma_pair_send(struct rdma_conn *r)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .qkey = RDMA_PAIR_KEY };

	r->pair_way = r->pair->way;
	return r->pair_way ? -ibv_modify_qp(r->id->qp, &attr, IBV_QP_STATE | IBV_QP_QKEY)
			   : rdma_pair_to_rts(r);
}

static void rdma_pair_routed(struct rdma_conn *r, int rc)
{
	if (rc == 0)
		rc = rdma_pair_send(r);
	if (rc < 0) {
		rdma_pair_refuse(r->conn, rc, strerror(-rc));
		conn_close(r->conn, CONN_END_ERROR);
		return;
	}
	rdma_conn_become(r, RDMA_ACCEPTED);
	rdma_queue_want_receives(r);
	if (r->pair->exchange)
		conn_ready(r->pair->exchange->conn);
}

/* What the client is told of our end. */
static int rdma_pair_set_own(struct rdma_conn *r)
{
	const struct ibv_device_attr *limits = &r->device->limits;
	struct pair_end *own = &r->pair->agreed.own;
	int rc = rdma_gid_find(r->id->verbs, r->id->port_num, &r->id->route.addr.addr.ibaddr.sgid,
			       &r->pair->from);

	if (rc < 0)
		return rc;
	memcpy(own->gid, &r->pair->from.gid, sizeof(own->gid));
	own->number = r->number;
	own->reads = (unsigned)MIN(MIN(limits->max_qp_rd_atom, limits->max_qp_init_rd_atom),
				   (int)MIN(r->pair->agreed.client.reads, (unsigned)UINT8_MAX));
	if (getrandom(&own->sequence, sizeof(own->sequence), 0) < 0)
		return -errno;
	own->sequence &= PAIR_PSN_MASK;
	return 0;
}

int rdma_pair_accept(struct rdma_conn *r)
{
	int rc = rdma_pair_set_own(r);

	if (rc == 0)
		rc = rdma_step_start(r, rdma_pair_route, rdma_pair_routed);
	return rc < 0 ? rdma_pair_refuse(r->conn, rc, strerror(-rc)) : 0;
}

/* Engine `rdma`: sockets.
 *
 * They are registered edge-triggered and stay in the epoll set while a connection's
 * input is off.  When it is on again, the registration is repeated, and epoll then
 * reports what is left in the socket. */

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

/* ---- Listening ---- */

static void rdma_exchange_accept(struct op *op, int ready, uint32_t flags)
{
	(void)ready, (void)flags;
	readiness_accept(container_of(op, struct acceptor, op));
}

void rdma_exchange_watch_listener(struct worker *w, struct acceptor *a, bool on)
{
	const struct rdma *e = w->engine_state;
	int rc = 0;

	a->op.done = rdma_exchange_accept;
	if (on)
		rc = rdma_watch(w, a->fd, &a->op);
	else
		epoll_ctl(e->epoll_fd, EPOLL_CTL_DEL, a->fd, NULL);
	if (rc < 0)
		worker_pause_accept(a, -rc);
}

/* The socket, or -errno. */
static int rdma_exchange_bind(const struct sockaddr_storage *address)
{
	int type = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
	int on = 1, rc = 0, fd = socket(address->ss_family, type, 0);

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
	char text[ADDRESS_TEXT_MAX];

	for (unsigned i = 0; i < w->accept.endpoint_count; i++) {
		int fd;

		if (!(w->service->flags & SERVICE_EXCHANGES) ||
		    rdma_cm_is_iwarp(w, i)) /* its queue pairs need the connection manager */
			continue;
		fd = rdma_exchange_bind(&w->accept.endpoints[i]);
		if (fd >= 0)
			w->accept.acceptors[w->accept.count++] =
				(struct acceptor){ .worker = w,
						   .fd = fd,
						   .address = i,
						   .port = sockaddr_port(&w->accept.endpoints[i]) };
		else
			log_listener(
				LOG_WARNING, w->listener,
				"bind tcp %s: %s; clients of the connection manager "
				"(-R) are served, others need a port that neither another program "
				"nor an iWARP device has",
				format_sockaddr(&w->accept.endpoints[i], text), strerror(-fd));
	}
}
