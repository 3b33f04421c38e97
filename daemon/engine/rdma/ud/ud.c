/* Engine `rdma`, datagrams: queue pairs, and the engine.
 *
 * There are no connections: a client asks the connection manager for the number of the
 * worker's queue pair, and sends.  It is identified by its address and queue pair.  The device
 * drops datagrams that find no receive, and we drop those of clients that hold too much, as
 * datagrams may be lost anyway. */
#include "ud.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm.h"
#include "conn.h"
#include "grh.h"
#include "log.h"
#include "parse.h"
#include "queue.h"
#include "rdma_keys.h"
#include "sockaddr.h"
#include "worker.h"

/* ---- Multicast groups (`groups`) ----
 *
 * A queue pair receives what is sent to those groups whose interface has the address of one of its
 * port's GIDs.  An identifier of the connection manager joins for it: the manager tells the
 * network, and the library attaches the queue pair when the manager says that it was joined.  Only
 * the first worker has groups, so each datagram is answered once. */

struct rdma_ud_group {
	struct rdma_ud_group *next; /* of the queue pair */
	struct rdma_ud *ud;
	const struct worker_group *of;
	struct rdma_cm_id *id;
};

/* The group's address without the interface, which is in sin_zero: the
 * library compares all bytes. */
static struct sockaddr_storage group_address(const struct worker_group *of)
{
	struct sockaddr_storage sa = of->group;

	if (sa.ss_family == AF_INET)
		sockaddr_set_interface(&sa, 0);
	return sa;
}

static void group_log(const struct worker *w, const struct worker_group *of, int error)
{
	char text[ADDRESS_TEXT_MAX];

	log_write(LOG_WARNING, w->listener, "listener '%s': group %s: cannot be joined: %s",
		  w->listener, format_sockaddr(&of->group, text), strerror(error));
}

static void group_free(struct rdma_ud_group *g)
{
	struct sockaddr_storage group = group_address(g->of);

	if (g->id) {
		rdma_leave_multicast(g->id, (struct sockaddr *)&group);
		g->id->qp = NULL;
		rdma_destroy_id(g->id);
	}
	free(g);
}

/* 0 or -errno. */
static int group_join(struct rdma_ud_group *g)
{
	struct sockaddr_storage group = group_address(g->of), local = g->of->local;
	int rc = rdma_cm_identify(g->ud->device->worker, g, true, &g->id);

	if (rc < 0)
		return rc;
	if (rdma_bind_addr(g->id, (struct sockaddr *)&local) < 0)
		return -errno;
	g->id->qp = g->ud->qp;
	return rdma_join_multicast(g->id, (struct sockaddr *)&group, NULL) < 0 ? -errno : 0;
}

/* Joins the worker's groups that the port's addresses can reach.  Failures are logged. */
static void groups_join(struct rdma_ud *ud)
{
	struct worker *w = ud->device->worker;

	for (unsigned i = 0; i < w->accept.group_count; i++) {
		const struct worker_group *of = &w->accept.groups[i];
		struct in6_addr local = sockaddr_mapped(&of->local);
		struct rdma_ud_group *g;
		struct ibv_gid_entry entry;
		int rc = rdma_gid_find(ud->device->verbs, ud->port, &local, &entry);

		if (rc == -EADDRNOTAVAIL)
			continue;
		if (rc < 0) {
			group_log(w, of, -rc);
			continue;
		}
		ud->group_gid = (uint8_t)entry.gid_index;
		g = calloc(1, sizeof(*g));
		if (!g) {
			group_log(w, of, ENOMEM);
			continue;
		}
		*g = (struct rdma_ud_group){ .next = ud->groups, .ud = ud, .of = of };
		rc = group_join(g);
		if (rc < 0) {
			group_log(w, of, -rc);
			group_free(g);
			continue;
		}
		ud->groups = g;
	}
}

/* Leaves all, as long as the queue pair exists. */
static void groups_leave(struct rdma_ud *ud)
{
	while (ud->groups) {
		struct rdma_ud_group *g = ud->groups;

		ud->groups = g->next;
		group_free(g);
	}
}

static bool group_is_joined(const struct rdma *e, const struct worker_group *of)
{
	for (const struct rdma_device *d = e->devices; d; d = d->next)
		for (const struct rdma_ud *ud = d->uds; ud; ud = ud->next)
			for (const struct rdma_ud_group *g = ud->groups; g; g = g->next)
				if (g->of == of)
					return true;
	return false;
}

/* Can each group be joined by a queue pair?  0, or -errno with the reason. */
static int groups_check(const struct worker *w, struct reason *reason)
{
	for (unsigned i = 0; i < w->accept.group_count; i++) {
		const struct worker_group *of = &w->accept.groups[i];
		char text[ADDRESS_TEXT_MAX], local[ADDRESS_TEXT_MAX];

		if (!group_is_joined(w->engine_state, of))
			return reason_set(reason, -EADDRNOTAVAIL,
					  "group %s: no RDMA device with datagrams has the address "
					  "%s of its interface, or it cannot be joined",
					  format_sockaddr(&of->group, text),
					  format_sockaddr(&of->local, local));
	}
	return 0;
}

/* rdma_mode.event() for an identifier that joins a group. */
static void group_event(void *context, enum rdma_cm_event_type type)
{
	const struct rdma_ud_group *g = context;

	if (type == RDMA_CM_EVENT_MULTICAST_ERROR)
		group_log(g->ud->device->worker, g->of, EIO);
}

/* ---- The queue pair ---- */

/* Changes the state.  RDMA_UD_DEAD is final: the port then gets another queue pair. */
static void rdma_ud_become(struct rdma_ud *ud, enum rdma_ud_state state)
{
	assert(ud->state != RDMA_UD_DEAD);
	ud->state = state;
}

static int rdma_ud_start(struct rdma_ud *ud)
{
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT,
		.port_num = (uint8_t)ud->port,
		.qkey = RDMA_UDP_QKEY,
	};
	struct ibv_qp_attr receive = { .qp_state = IBV_QPS_RTR };
	struct ibv_qp_attr send = { .qp_state = IBV_QPS_RTS };

	if (ibv_modify_qp(ud->qp, &init,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) != 0 ||
	    ibv_modify_qp(ud->qp, &receive, IBV_QP_STATE) != 0 ||
	    ibv_modify_qp(ud->qp, &send, IBV_QP_STATE | IBV_QP_SQ_PSN) != 0)
		return errno ? -errno : -EIO;
	return 0;
}

static void rdma_ud_refill(struct rdma_ud *ud)
{
	struct rdma_chain chain;
	struct ibv_recv_wr *bad = NULL;

	while (ud->receives.count < ud->receives.max &&
	       rdma_receives_chain(&ud->receives, ud->device->worker, ud->device, &chain,
				   RDMA_TAG_DATAGRAM, ud->receives.max - ud->receives.count) > 0)
		if (ibv_post_recv(ud->qp, chain.requests, &bad) != 0) {
			rdma_receives_not_posted(&ud->receives, ud->device->worker, bad);
			rdma_ud_failed(ud);
			return;
		}
}

static int rdma_ud_make(struct rdma_ud *ud, struct reason *reason)
{
	struct rdma_device *d = ud->device;
	struct pool *p = &d->worker->pool;
	const char *name = ibv_get_device_name(d->verbs->device);
	struct ibv_port_attr port;
	struct ibv_qp_init_attr attr = {
		.send_cq = d->cq,
		.recv_cq = d->cq,
		.cap = { .max_send_wr = RDMA_UD_SENDS, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_UD,
	};
	int rc;

	if (d->verbs->device->transport_type != IBV_TRANSPORT_IB)
		return reason_set(reason, -EPROTONOSUPPORT,
				  "%s: iWARP has no datagrams; qp-type = rc, or a device with RoCE "
				  "or InfiniBand",
				  name);
	if (ibv_query_port(d->verbs, (uint8_t)ud->port, &port) != 0)
		return reason_set(reason, -EIO, "%s/%u: the port cannot be queried", name,
				  ud->port);
	ud->mtu = 128U << port.active_mtu;
	if (peers_init(&ud->peers) < 0)
		return reason_set(reason, -ENOMEM, "no memory");
	ud->peers.evict = rdma_ud_evict;
	if (p->chunk_size < ud->mtu + GRH_BYTES)
		return reason_set(reason, -EMSGSIZE,
				  "%s/%u: a datagram has up to %u bytes and a header of %d; set "
				  "`buffer-size` to the next power of two",
				  name, ud->port, ud->mtu, GRH_BYTES);
	if (rdma_receives_open(&ud->receives, d->worker, RDMA_UD_RECVS) < 0)
		return reason_set(reason, -ENOMEM, "no memory");
	attr.cap.max_recv_wr = ud->receives.max;
	if (rdma_device_reserve(d, ud->receives.max + RDMA_UD_SENDS) < 0)
		return reason_set(reason, -ENOSPC, "%s: its completion queues are too small", name);
	ud->entries = ud->receives.max + RDMA_UD_SENDS;
	rc = rdma_queue_create(d, NULL, &attr, &ud->inline_max, &ud->qp);
	if (rc == 0)
		rc = rdma_ud_start(ud);
	if (rc < 0)
		return reason_set(reason, rc, "%s/%u: no queue pair for datagrams: %s", name,
				  ud->port, strerror(-rc));
	ud->number = ud->qp->qp_num;
	return 0;
}

static void rdma_ud_free(struct rdma_ud *ud)
{
	groups_leave(ud);
	if (ud->qp)
		ibv_destroy_qp(ud->qp);
	rdma_ud_destroy_handles(ud);
	rdma_receives_close(&ud->receives, ud->device->worker);
	rdma_device_unreserve(ud->device, ud->entries);
	peers_fini(&ud->peers);
	free(ud);
}

static void rdma_ud_free_all(struct rdma_device *d)
{
	while (d->uds) {
		struct rdma_ud *ud = d->uds;

		d->uds = ud->next;
		rdma_ud_free(ud);
	}
}

/* The queue pair of this port, made if there is none.  NULL with the reason. */
static struct rdma_ud *rdma_ud_get(struct rdma_device *d, unsigned port, struct reason *reason)
{
	struct rdma_ud *ud;

	for (ud = d->uds; ud; ud = ud->next)
		if (ud->port == port && ud->state != RDMA_UD_DEAD)
			return ud;
	ud = calloc(1, sizeof(*ud));
	if (!ud) {
		reason_set(reason, -ENOMEM, "no memory");
		return NULL;
	}
	ud->device = d;
	ud->port = port;
	if (rdma_ud_make(ud, reason) < 0) {
		rdma_ud_free(ud);
		return NULL;
	}
	ud->name = rdma_device_port(d, port);
	ud->next = d->uds;
	d->uds = ud;
	worker_feature(d->worker, FEATURE_datagrams);
	if (ud->inline_max > 0)
		worker_feature(d->worker, FEATURE_inline_send);
	rdma_ud_refill(ud);
	groups_join(ud);
	return ud;
}

/* ---- Failures ---- */

/* Takes back all posted chunks: no request in flight will complete any more. */
static void rdma_ud_forget(struct rdma_ud *ud)
{
	rdma_device_drain(ud->device);
	rdma_receives_forget(&ud->receives, &ud->device->worker->pool);
	rdma_ud_forget_sends(ud);
}

static void rdma_ud_kill(struct rdma_ud *ud)
{
	groups_leave(ud);
	ibv_destroy_qp(ud->qp);
	ud->qp = NULL;
	rdma_ud_forget(ud);
	rdma_ud_become(ud, RDMA_UD_DEAD);
	for (enum peer_list list = PEER_PROBATION; list < PEER_LISTS; list++)
		while (ud->peers.lists[list].newest)
			conn_close(ud->peers.lists[list].newest->conn, CONN_END_ERROR);
}

/* Resets a failed queue pair.  It keeps its number, so clients continue; some answers are lost. */
static void rdma_ud_fix(struct rdma_ud *ud)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };

	if (ud->device->gone || ibv_modify_qp(ud->qp, &reset, IBV_QP_STATE) != 0) {
		rdma_ud_kill(ud);
		return;
	}
	rdma_ud_forget(ud);
	if (rdma_ud_start(ud) < 0)
		rdma_ud_kill(ud);
	else
		rdma_ud_become(ud, RDMA_UD_WORKS);
}

/* Resets failed queue pairs, releases a device that was unplugged, frees dead queue pairs. */
static void rdma_ud_maintain_device(struct rdma_device *d)
{
	struct rdma_ud **at = &d->uds;

	while (*at) {
		struct rdma_ud *ud = *at;

		if (ud->state == RDMA_UD_BROKEN || (ud->state == RDMA_UD_WORKS && d->gone))
			rdma_ud_fix(ud);
		if (ud->state == RDMA_UD_DEAD && ud->users == 0) {
			*at = ud->next;
			rdma_ud_free(ud);
		} else {
			at = &ud->next;
		}
	}
}

static void rdma_ud_maintain(struct worker *w)
{
	const struct rdma *e = w->engine_state;

	for (struct rdma_device *d = e->devices; d; d = d->next)
		rdma_ud_maintain_device(d);
}

static void rdma_ud_refill_all(struct worker *w)
{
	const struct rdma *e = w->engine_state;

	for (struct rdma_device *d = e->devices; d; d = d->next)
		for (struct rdma_ud *ud = d->uds; ud; ud = ud->next)
			if (ud->state == RDMA_UD_WORKS)
				rdma_ud_refill(ud);
}

/* ---- Requests for the address of the queue pair ---- */

/* Tells a client the number of the queue pair.  0, or -errno: not admitted, or it failed. */
static int rdma_ud_answer(struct worker *w, const struct rdma_ud *ud,
			  const struct rdma_request *request)
{
	struct rdma_conn_param accept = { .qp_num = ud->number };
	void *ticket = NULL;
	int rc = w->drain.on || w->turn.stop ? -EUSERS
					     : w->owner->admit(w, -1, &request->peer, &ticket);

	if (rc < 0)
		return rc;
	w->owner->release(w, ticket); /* the client counts as a connection only when it sends */
	if (rdma_accept(request->id, &accept) < 0)
		return -errno;
	rdma_ud_handles_asked(w, &request->peer);
	return 0;
}

static void rdma_ud_requested(struct worker *w, struct rdma_request *request)
{
	struct reason reason = { "" };
	struct rdma_device *d = rdma_device_get(w, request->id->verbs, &reason);
	const struct rdma_ud *ud = d ? rdma_ud_get(d, request->id->port_num, &reason) : NULL;
	int rc = ud ? rdma_ud_answer(w, ud, request) : -ENODEV;

	if (rc == 0) {
		rdma_destroy_id(request->id);
		rdma_request_free(request);
		return;
	}
	if (rc == -EACCES)
		stat_add(w->stats.refused_denied, 1);
	else
		stat_add(w->stats.refused_limit, 1);
	rdma_request_refuse(request, ud ? rdma_cm_refusal(w, rc) : reason.text);
}

/* ---- Received datagrams ---- */

static struct peer_key rdma_ud_key(const struct sockaddr_storage *address, uint32_t number)
{
	struct in6_addr ip = sockaddr_mapped(address);
	struct peer_key key = { .words = { [2] = number } };

	memcpy(key.words, &ip, sizeof(ip));
	return key;
}

/* Delivers the datagram in k to its client, has an address handle made if the
 * client is new, or drops it. */
static void rdma_ud_deliver(struct rdma_ud *ud, struct chunk *k, const struct ibv_wc *wc)
{
	struct rdma_ud_client from = { .address.ss_family = AF_INET6, .number = wc->src_qp };
	struct peer *known;
	bool held = false;

	/* Within an InfiniBand subnet the header may be missing. */
	if (wc->byte_len >= GRH_BYTES &&
	    (!(wc->wc_flags & IBV_WC_GRH) || grh_source(k->base, &from.address) == 0)) {
		from.key = rdma_ud_key(&from.address, wc->src_qp);
		known = peers_find(&ud->peers, &from.key);
		if (known) {
			rdma_ud_input(container_of(known, struct rdma_peer, peer), k, wc->byte_len);
			return;
		}
		held = rdma_ud_hold(ud, &from, k, wc);
	}
	if (!held)
		stat_add(ud->device->worker->stats.datagrams_dropped, 1);
}

static void rdma_ud_received(struct rdma_device *d, void *of, const struct ibv_wc *wc)
{
	struct rdma_ud *ud = d->uds;
	struct worker *w = d->worker;
	struct chunk *k = of;

	while (ud && (ud->state == RDMA_UD_DEAD || ud->number != wc->qp_num))
		ud = ud->next;
	if (!ud || !ud->receives.is[k->id])
		return; /* it was taken back when the queue pair was reset */
	if (wc->status == IBV_WC_SUCCESS) {
		stat_add(w->stats.wc_recv, 1);
		rdma_ud_deliver(ud, k, wc);
	} else {
		rdma_queue_count_error(&w->stats, wc->status);
		rdma_ud_failed(ud);
	}
	rdma_receives_back(&ud->receives, &w->pool, k);
}

/* ---- The engine ---- */

static int rdma_ud_device_serves(struct rdma_device *d, unsigned port, struct reason *reason)
{
	return rdma_ud_get(d, port, reason) ? 0 : -EIO;
}

static const struct rdma_mode rdma_datagrams = {
	.space = RDMA_PS_UDP,
	.closing = rdma_ud_free_all,
	.serves = rdma_ud_device_serves,
	.completed = { [RDMA_TAG_DATAGRAM] = rdma_ud_received,
		       [RDMA_TAG_DATAGRAM_SENT] = rdma_ud_sent },
	.requested = rdma_ud_requested,
	.event = group_event,
	.maintain = rdma_ud_maintain,
	.refill = rdma_ud_refill_all,
};

static void rdma_ud_accept(struct worker *w, bool on)
{
	const struct rdma *e = w->engine_state;

	rdma_cm_accept(w, on);
	for (struct rdma_device *d = on ? NULL : e->devices; d; d = d->next)
		for (struct rdma_ud *ud = d->uds; ud; ud = ud->next)
			groups_leave(ud);
}

static int rdma_ud_init(struct worker *w, struct reason *reason)
{
	int rc = rdma_init(w, &rdma_datagrams, reason);

	if (rc < 0)
		return rc;
	rc = groups_check(w, reason);
	if (rc == 0)
		rc = rdma_ud_handles_open(w, reason);
	if (rc < 0)
		rdma_fini(w);
	return rc;
}

/* Also ends the clients that the core has given up. */
static void rdma_ud_fini(struct worker *w)
{
	rdma_ud_handles_close(w);
	for (struct conn *c = w->conns; c; c = c->next)
		rdma_ud_release(c);
	rdma_fini(w);
}

static const struct engine_clients rdma_ud_clients = {
	.peer = rdma_ud_peer,
	.device = rdma_ud_device,
};

extern const struct engine engine_rdma_datagrams;

/* The engine of a listener with `qp-type = ud`. */
const struct engine engine_rdma_datagrams = {
	.suits = rdma_suits_datagrams,
	RDMA_ENGINE,
	.accept = rdma_ud_accept,
	.forgets = true,
	.init = rdma_ud_init,
	.fini = rdma_ud_fini,
	.open = rdma_ud_open,
	.recv = rdma_ud_recv,
	.flush = rdma_ud_flush,
	.close = rdma_ud_close,
	.release = rdma_ud_release,
	.clients = &rdma_ud_clients,
};
