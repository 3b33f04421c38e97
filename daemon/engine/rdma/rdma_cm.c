/* Engine `rdma`: connections, by the RDMA connection manager.
 *
 * The first worker of a listener binds its addresses and hears of new connections; it hands them
 * over, one after the other, to all workers, by moving the identifier to their event channel and
 * posting a call.  What ends is torn down at one place, rdma_cm_end_all(), between two turns: no
 * completion and no event is being looked at then, so after it nothing can name the connection. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conn.h"
#include "parse.h"
#include "rdma.h"
#include "rdma_ud.h"

/* ---- Listening ---- */

static const char *rdma_cm_advice(int error)
{
	switch (error) {
	case EADDRINUSE:
		return "; another program listens there (rdma resource show cm_id), choose another "
		       "port";
	case ENODEV:
	case EADDRNOTAVAIL:
		return "; no RDMA device of this host has that address (rdma link shows the devices, "
		       "ip address their addresses)";
	case EACCES:
		return "; ports below 1024 need CAP_NET_BIND_SERVICE";
	default:
		return "";
	}
}

static socklen_t rdma_cm_length(const struct sockaddr_storage *address)
{
	return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					      : sizeof(struct sockaddr_in);
}

static int rdma_cm_create(struct rdma *e, enum rdma_port_space space,
			  const struct sockaddr_storage *address, struct rdma_cm_id **ret_id)
{
	int on = 1;

	if (rdma_create_id(e->channel, ret_id, NULL, space) < 0)
		return -errno;
	rdma_set_option(*ret_id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on));
	return rdma_bind_addr(*ret_id, (struct sockaddr *)address) < 0 ? -errno : 0;
}

/* The only way to an identifier whose connections have queue pairs of another type than the port
 * space's own. */
static int rdma_cm_create_uc(struct rdma *e, const struct sockaddr_storage *address,
			     struct rdma_cm_id **ret_id)
{
	struct rdma_addrinfo info = {
		.ai_flags = RAI_PASSIVE,
		.ai_family = address->ss_family,
		.ai_qp_type = IBV_QPT_UC,
		.ai_port_space = RDMA_PS_IB,
		.ai_src_len = rdma_cm_length(address),
		.ai_src_addr = (struct sockaddr *)address,
	};

	if (rdma_create_ep(ret_id, &info, NULL, NULL) < 0)
		return -errno;
	return rdma_migrate_id(*ret_id, e->channel) < 0 ? -errno : 0;
}

static int rdma_cm_bind_one(struct worker *w, unsigned index, struct reason *reason)
{
	struct rdma *e = w->engine_state;
	struct sockaddr_storage *address = &w->endpoints[index];
	struct rdma_cm_id **id = &e->listeners[index];
	char text[ADDRESS_TEXT_MAX];
	struct rdma_device *d;
	int rc;

	if (w->options.qp_type == QP_UC)
		rc = rdma_cm_create_uc(e, address, id);
	else
		rc = rdma_cm_create(e, w->options.qp_type == QP_UD ? RDMA_PS_UDP : RDMA_PS_TCP,
				    address, id);
	if (rc < 0)
		return reason_set(reason, rc, "bind %s: %s%s", format_sockaddr(address, text),
				  strerror(-rc), rdma_cm_advice(-rc));
	memcpy(address, rdma_get_local_addr(*id), rdma_cm_length(address));
	if (!(*id)->verbs) /* a wildcard */
		return 0;
	d = rdma_device_get(w, (*id)->verbs, reason);
	if (!d || rdma_device_serves(d, (*id)->port_num, reason) < 0)
		return -EIO;
	rdma_device_port(d, (*id)->port_num);
	return 0;
}

int rdma_cm_bind(struct worker *w, struct reason *reason)
{
	struct rdma *e = w->engine_state;
	int rc = 0;

	e->listeners = calloc(w->endpoint_count + 1, sizeof(*e->listeners));
	if (!e->listeners)
		return reason_set(reason, -ENOMEM, "rdma: no memory");
	for (unsigned i = 0; i < w->endpoint_count && rc == 0; i++)
		rc = rdma_cm_bind_one(w, i, reason);
	return rc;
}

void rdma_cm_unbind(struct worker *w)
{
	struct rdma *e = w->engine_state;

	for (unsigned i = 0; e->listeners && i < w->endpoint_count; i++) {
		if (e->listeners[i])
			rdma_destroy_id(e->listeners[i]);
		e->listeners[i] = NULL;
	}
}

void rdma_cm_accept(struct worker *w, bool on)
{
	struct rdma *e = w->engine_state;

	e->listening = on;
	if (!on) {
		rdma_cm_unbind(w);
		return;
	}
	for (unsigned i = 0; i < w->endpoint_count; i++)
		if (e->listeners[i])
			rdma_listen(e->listeners[i], RDMA_BACKLOG);
}

/* -errno: its device is not there, or not yet. */
static int rdma_cm_listen_one(struct worker *w, unsigned index)
{
	struct rdma *e = w->engine_state;
	struct reason reason = { "" };
	int rc = rdma_cm_bind_one(w, index, &reason);

	if (rc == 0 && rdma_listen(e->listeners[index], RDMA_BACKLOG) < 0)
		rc = -errno;
	if (rc < 0 && e->listeners[index]) {
		rdma_destroy_id(e->listeners[index]);
		e->listeners[index] = NULL;
	}
	return rc;
}

bool rdma_cm_listen_again(struct worker *w)
{
	const struct rdma *e = w->engine_state;
	bool all = true;

	for (unsigned i = 0; e->listening && i < w->endpoint_count; i++)
		if (!e->listeners[i] && rdma_cm_listen_one(w, i) < 0)
			all = false;
	return all;
}

/* ---- A connection begins ---- */

/* The client sees why, as private data. */
static void rdma_cm_reject(struct rdma_cm_id *id, const char *why)
{
	char text[RDMA_REJECT_MAX] = "";

	strncpy(text, why, sizeof(text) - 1);
	rdma_reject(id, text, (uint8_t)(strlen(text) + 1));
}

void rdma_cm_drop(struct rdma_conn *r, const char *why)
{
	rdma_cm_reject(r->id, why);
	rdma_destroy_id(r->id);
	free(r);
}

const char *rdma_cm_refusal(const struct worker *w, int rc)
{
	if (rc == -EACCES)
		return "not allowed";
	return w->draining ? "draining" : "too many connections";
}

static void rdma_cm_take(struct worker *w, struct rdma_conn *r)
{
	const struct pool *p = &w->pool;
	struct reason reason = { "" };
	void *ticket = NULL;
	int rc;

	r->device = rdma_device_get(w, r->id->verbs, &reason);
	if (!r->device || (!r->device->srq && p->free_count < p->keep + RDMA_RECVS_MIN)) {
		stat_add(w->stats.refused_limit, 1);
		rdma_cm_drop(r, r->device ? "no buffers are left" : reason.text);
		return;
	}
	if (w->options.qp_type == QP_UD) {
		rdma_ud_answer(w, r);
		return;
	}
	rc = w->draining || w->stop ? -EUSERS : conn_admit(w, -1, &r->peer, &ticket);
	if (rc < 0) {
		rdma_cm_drop(r, rdma_cm_refusal(w, rc));
		return;
	}
	r->port = rdma_device_port(r->device, r->id->port_num);
	rdma_queue_size(r, p);
	r->id->context = r;
	if (conn_start(w, -1, r, ticket) < 0)
		rdma_cm_drop(r, "no memory");
}

int rdma_cm_open(struct conn *c)
{
	struct rdma_conn *r = c->engine_state;
	const struct ibv_device_attr *limits = &r->device->limits;
	struct rdma_conn_param accept = {
		.responder_resources = (uint8_t)MIN(r->responder_resources, limits->max_qp_rd_atom),
		.initiator_depth = (uint8_t)MIN(r->initiator_depth, limits->max_qp_init_rd_atom),
		.retry_count = RDMA_RETRY,
		.rnr_retry_count = RDMA_RNR_RETRY,
	};
	int rc;

	r->conn = c;
	r->reads_max = accept.initiator_depth;
	rc = rdma_queue_open(r);
	if (rc < 0)
		return rc;
	c->pending = 1; /* until the queue pair is destroyed */
	rdma_queue_feed(r);
	if (c->flags & CONN_CLOSING)
		return 0;
	if (rdma_accept(r->id, &accept) < 0)
		return -errno;
	r->accepted = true;
	if (r->inline_max > 0)
		worker_feature(c->worker, FEATURE_inline_send);
	return 0;
}

/* ---- From worker to worker ---- */

struct rdma_handover {
	struct call call;
	struct worker *worker;
	struct rdma_conn *conn;
};

static void rdma_cm_handed_over(struct call *call)
{
	struct rdma_handover *h = container_of(call, struct rdma_handover, call);

	rdma_cm_take(h->worker, h->conn);
	free(h);
}

static bool rdma_cm_hand_over(struct worker *to, struct rdma_conn *r)
{
	const struct rdma *e = to->engine_state;
	struct rdma_handover *h = malloc(sizeof(*h));

	if (!h)
		return false;
	if (rdma_migrate_id(r->id, e->channel) < 0) {
		free(h);
		return false;
	}
	*h = (struct rdma_handover){ .call.fn = rdma_cm_handed_over, .worker = to, .conn = r };
	mailbox_post(&to->mailbox, &h->call);
	return true;
}

static void rdma_cm_requested(struct worker *w, struct rdma_cm_id *id,
			      const struct rdma_conn_param *wanted)
{
	struct rdma *e = w->engine_state;
	struct rdma_conn *r = calloc(1, sizeof(*r));
	const struct sockaddr *peer = rdma_get_peer_addr(id);
	struct worker *to = w;

	if (!r) {
		rdma_cm_reject(id, "no memory");
		rdma_destroy_id(id);
		return;
	}
	r->id = id;
	r->responder_resources = wanted->responder_resources;
	r->initiator_depth = wanted->initiator_depth;
	memcpy(&r->peer, peer,
	       peer->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					   : sizeof(struct sockaddr_in));
	if (w->team_count > 1)
		to = &w->team[e->next_worker++ % w->team_count];
	if (to == w)
		rdma_cm_take(w, r);
	else if (!rdma_cm_hand_over(to, r))
		rdma_cm_drop(r, "no memory");
}

/* ---- Its end ---- */

void rdma_cm_end(struct conn *c)
{
	struct rdma_conn *r = c->engine_state;
	struct rdma *e = c->worker->engine_state;

	if (r->ending || !r->id || r->conn != c)
		return;
	if (!(c->flags & CONN_CLOSING))
		conn_eof(c); /* what has arrived is served, and it ends */
	r->ending = true;
	r->ending_next = e->ending;
	e->ending = r;
}

static void rdma_cm_stop(struct rdma_conn *r)
{
	if (r->accepted)
		rdma_disconnect(r->id);
	else
		rdma_cm_reject(r->id, "an error of the server");
}

static void rdma_cm_poll(struct rdma *e)
{
	for (struct rdma_device *d = e->devices; d; d = d->next)
		for (unsigned taken = 0, n = 1; n > 0 && taken < d->cq_size; taken += n)
			n = rdma_device_poll(d);
}

static void rdma_cm_free(struct rdma_conn *r)
{
	struct conn *c = r->conn;
	bool had_queues = c->pending > 0;

	if (had_queues)
		rdma_queue_close(r);
	rdma_destroy_id(r->id);
	r->id = NULL;
	if (had_queues)
		rdma_device_put(r->device);
	c->pending = 0;
	conn_ready(c);
}

/* A queue pair that is gone completes nothing more.  What it has completed is polled before, for
 * some devices then drop it and a shared receive would be lost, and after, for others do not. */
void rdma_cm_end_all(struct worker *w)
{
	struct rdma *e = w->engine_state;
	struct rdma_conn *list = e->ending, *r;

	if (likely(!list))
		return;
	for (r = list; r; r = r->ending_next)
		rdma_cm_stop(r);
	rdma_cm_poll(e);
	for (r = list; r; r = r->ending_next)
		if (r->id->qp)
			rdma_destroy_qp(r->id);
	rdma_cm_poll(e);
	/* The polls may have added others in front: they are for the next time. */
	if (e->ending == list) {
		e->ending = NULL;
	} else {
		for (r = e->ending; r->ending_next != list;)
			r = r->ending_next;
		r->ending_next = NULL;
	}
	while (list) {
		r = list;
		list = r->ending_next;
		rdma_cm_free(r);
	}
}

/* ---- Events ---- */

/* Transports over Ethernet and InfiniBand begin with 655 ms. */
static void rdma_cm_established(struct rdma_conn *r)
{
	struct ibv_qp_attr attr = { .min_rnr_timer = RDMA_RNR_TIMER };

	if (r->id->qp && r->id->qp->qp_type == IBV_QPT_RC &&
	    r->id->verbs->device->transport_type == IBV_TRANSPORT_IB)
		ibv_modify_qp(r->id->qp, &attr, IBV_QP_MIN_RNR_TIMER);
}

static void rdma_cm_removed(struct worker *w, struct rdma_cm_id *id)
{
	struct rdma *e = w->engine_state;

	for (struct rdma_device *d = e->devices; d; d = d->next)
		if (d->verbs == id->verbs)
			rdma_device_gone(d);
	for (unsigned i = 0; i < w->endpoint_count; i++)
		if (e->listeners[i] == id) {
			rdma_destroy_id(id);
			e->listeners[i] = NULL;
			rdma_address_lost(e);
		}
}

static void rdma_cm_handle(struct worker *w, enum rdma_cm_event_type type, struct rdma_cm_id *id,
			   const struct rdma_conn_param *param)
{
	struct rdma_conn *r = id->context;

	switch (type) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		rdma_cm_requested(w, id, param);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		rdma_cm_established(r);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		if (r)
			rdma_cm_end(r->conn);
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
		if (r)
			conn_close(r->conn, CONN_END_RESET);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		rdma_cm_removed(w, id);
		break;
	default: /* an address has moved: connections go on until they fail */
		break;
	}
}

/* An event is acknowledged before it is acted upon: an identifier that has one cannot be moved. */
void rdma_cm_event(struct op *op, int res, uint32_t flags)
{
	struct rdma *e = container_of(op, struct rdma, channel_op);
	struct worker *w = e->worker;
	struct rdma_cm_event *event;

	(void)res, (void)flags;
	while (rdma_get_cm_event(e->channel, &event) == 0) {
		enum rdma_cm_event_type type = event->event;
		struct rdma_conn_param param = event->param.conn;
		struct rdma_cm_id *id = event->id;

		stat_add(w->stats.sys_other, 1);
		param.private_data = NULL;
		rdma_ack_cm_event(event);
		rdma_cm_handle(w, type, id, &param);
	}
}
