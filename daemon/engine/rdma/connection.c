/* Engine `rdma`: connections.
 *
 * The receives that are posted are a client's credit; each is a chunk of the pool, which is
 * registered once per worker and device.  Everything that a run of the service has queued is posted
 * in one chain: a message per view, small ones inline, which frees their chunks at once.
 * Connections that end are torn down in one place, rdma_conn_end_all(), between two turns: no
 * completion and no event is being handled then, so afterwards nothing refers to the connection. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm.h"
#include "conn.h"
#include "pair_socket.h"
#include "queue.h"
#include "rdma_engine.h"
#include "sockaddr.h"
#include "step.h"

/* ---- Setup ---- */

/* The core now refers to the connection, even if it is refused. */
static void rdma_conn_adopt(struct conn *c)
{
	struct rdma_conn *r = c->engine_state;

	r->conn = c;
	rdma_conn_become(r, RDMA_OPENING);
}

int rdma_conn_open(struct conn *c)
{
	struct rdma_conn *r = c->engine_state;
	int rc;

	if (conn_is_exchange(c))
		return rdma_exchange_open(c);
	if (r->state != RDMA_NEW) /* the service has closed it */
		return 0;
	rdma_conn_adopt(c);
	rc = rdma_queue_open(r);
	if (rc < 0)
		return rc;
	if (r->inline_max > 0)
		worker_feature(c->worker, FEATURE_inline_send);
	rdma_queue_refill(r);
	if (r->state != RDMA_OPENING)
		return 0;
	return r->pair ? rdma_pair_accept(r) : rdma_conn_accept(r);
}

/* ---- Teardown ---- */

void rdma_conn_end(struct conn *c)
{
	struct rdma_conn *r = c->engine_state;

	if (conn_is_exchange(c)) {
		rdma_exchange_close(c);
		return;
	}
	if (r->state == RDMA_NEW)
		rdma_conn_adopt(c);
	if (!rdma_conn_is_open(r))
		return;
	if (!(c->flags & CONN_CLOSING))
		conn_eof(c); /* received messages are served before it ends */
	rdma_conn_become(r, r->state == RDMA_ACCEPTED ? RDMA_ENDED : RDMA_REFUSED);
}

/* iWARP ends a connection whose message finds no receive, and does not report that reason.  Counts
 * the end if it was the reason here. */
static void rdma_conn_judge(const struct rdma_conn *r)
{
	struct conn *c = r->conn;

	if (r->state == RDMA_ENDED && r->posted && rdma_queue_is_used_up(r) &&
	    r->id->verbs->device->transport_type == IBV_TRANSPORT_IWARP &&
	    (c->end == CONN_END_PEER || c->end == CONN_END_RESET))
		c->end = CONN_END_OVERRUN;
}

static void rdma_conn_tear_down(struct rdma_conn *r)
{
	rdma_conn_judge(r);
	rdma_remote_close(r);
	rdma_queue_close(r);
	rdma_destroy_id(r->id);
	r->id = NULL;
	rdma_conn_become(r, RDMA_GONE);
	if (r->pair)
		rdma_pair_gone(r->pair);
}

/* Tells the client that the connection has ended. */
static void rdma_conn_notify(struct rdma_conn *r)
{
	if (r->pair) /* the end of its socket tells it */
		return;
	if (r->state == RDMA_ENDED)
		rdma_disconnect(r->id);
	else
		rdma_cm_reject(r->device->worker, r->id, "an error of the server");
}

static void rdma_conn_drain(const struct rdma *e)
{
	for (struct rdma_device *d = e->devices; d; d = d->next)
		rdma_device_drain(d);
}

/* The connections on e->ending that can be torn down; leaves the others. */
static struct rdma_conn *rdma_conn_take_ended(struct rdma *e)
{
	struct rdma_conn *list = e->ending, *ended = NULL;

	e->ending = NULL; /* the polls may add connections: these are for the next call */
	while (list) {
		struct rdma_conn *r = list, **to = r->step ? &e->ending : &ended;

		list = r->ending_next;
		r->ending_next = *to;
		*to = r;
	}
	return ended;
}

/* Frees connections that have ended.  A destroyed queue pair completes nothing more, so
 * its completions are polled before, since some devices drop them then, and messages with
 * them; and after, since other devices do not, and they name a connection that is about to be
 * freed. */
void rdma_conn_end_all(struct rdma *e)
{
	struct rdma_conn *list, *r;

	if (likely(!e->ending))
		return;
	list = rdma_conn_take_ended(e);
	if (!list)
		return;
	for (r = list; r; r = r->ending_next)
		rdma_conn_notify(r);
	rdma_conn_drain(e);
	for (r = list; r; r = r->ending_next)
		if (r->id->qp)
			rdma_destroy_qp(r->id);
	rdma_conn_drain(e);
	while (list) {
		r = list;
		list = r->ending_next;
		rdma_conn_tear_down(r);
	}
}

void rdma_conn_release(struct conn *c)
{
	struct rdma_conn *r = c->engine_state;

	if (conn_is_exchange(c)) {
		rdma_exchange_release(c);
		return;
	}
	if (r->pair)
		rdma_pair_free(r->pair);
	rdma_conn_free(r);
}

/* ---- Sends and receives ---- */

void rdma_conn_recv(struct conn *c, bool on)
{
	if (on && conn_is_exchange(c))
		rdma_exchange_recv(c);
	else if (on)
		rdma_queue_want_receives(c->engine_state);
}

void rdma_conn_flush(struct conn *c)
{
	struct rdma_conn *r = c->engine_state;
	struct rdma_send_chain chain;
	bool all;

	if (unlikely(conn_is_exchange(c))) {
		rdma_exchange_flush(c);
		return;
	}
	if (!rdma_conn_is_open(r) || (c->flags & CONN_EOF)) { /* the client has gone */
		bufq_drop(&c->worker->pool, &c->tx, c->tx.bytes);
		return;
	}
	if (unlikely(r->state != RDMA_ACCEPTED)) /* its queue pair cannot send yet */
		return;
	/* Receives are posted first: a reply allows the client to send the next message, and iWARP
	 * ends a connection whose message finds no receive. */
	rdma_queue_refill(r);
	rdma_send_chain_init(&chain, r);
	all = rdma_remote_add(r, &chain) && rdma_send_chain_scratch(&chain, r) &&
	      rdma_send_chain_messages(&chain, r);
	if (!all)
		stat_add(c->worker->stats.tx_blocked, 1);
	if (chain.count > 0)
		rdma_send_chain_post(&chain, r, all);
}

void rdma_conn_refill_all(struct rdma *e)
{
	while (e->wanting) {
		struct rdma_conn *r = e->wanting;

		e->wanting = r->wanting_next;
		r->wants_receives = false;
		rdma_queue_refill(r);
		if (rdma_conn_has_unsent(r))
			rdma_conn_flush(r->conn);
	}
}

/* ---- Completions ---- */

static void rdma_conn_failed(struct rdma_conn *r, enum ibv_wc_status status)
{
	struct conn *c = r->conn;

	rdma_queue_count_error(&c->worker->stats, status);
	switch (status) {
	case IBV_WC_WR_FLUSH_ERR: /* the connection has ended; another event tells why */
		rdma_conn_end(c);
		break;
	case IBV_WC_RNR_RETRY_EXC_ERR:
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RESP_TIMEOUT_ERR:
	case IBV_WC_REM_ABORT_ERR:
		conn_close(c, CONN_END_RESET);
		break;
	default: /* for example a message longer than its buffer, or an invalid key */
		conn_close(c, CONN_END_PROTOCOL);
	}
}

static void rdma_conn_lane_done(struct rdma_conn *r, enum rdma_lane_kind kind,
				const struct ibv_wc *wc)
{
	struct conn *c = r->conn;
	struct rdma_signalled done;

	if (wc->status != IBV_WC_SUCCESS) {
		rdma_conn_failed(r, wc->status);
		return;
	}
	done = rdma_queue_sent(r, kind);
	if (done.bytes > 0)
		conn_sent(c, &c->sending, done.bytes, 0);
	rdma_remote_completed(&r->lanes[kind], done.remotes);
	if (c->tx.bytes > 0)
		conn_ready(c);
	if (rdma_conn_has_unsent(r))
		rdma_queue_want_receives(r);
}

static void rdma_conn_sent(struct rdma_conn *r, const struct ibv_wc *wc)
{
	rdma_conn_lane_done(r, RDMA_LANE_OUT, wc);
}

static void rdma_conn_read(struct rdma_conn *r, const struct ibv_wc *wc)
{
	rdma_conn_lane_done(r, RDMA_LANE_IN, wc);
}

/* No accounting: the next signalled request of the lane covers this one. */
static void rdma_conn_uncounted(struct rdma_conn *r, const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS)
		rdma_conn_failed(r, wc->status);
}

static void rdma_conn_received(struct rdma_conn *r, const struct ibv_wc *wc)
{
	rdma_queue_received(r, wc);
	if (wc->status != IBV_WC_SUCCESS)
		rdma_conn_failed(r, wc->status);
}

/* ---- Events ---- */

static void rdma_conn_event(void *context, enum rdma_cm_event_type type)
{
	struct rdma_conn *r = context;
	switch (type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ADDR_ERROR:
		rdma_pair_event(r, type);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		rdma_conn_end(r->conn);
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
		conn_close(r->conn, CONN_END_RESET);
		break;
	default: /* ESTABLISHED; an address has moved: connections continue until they fail */
		break;
	}
}

static void rdma_conn_device_gone(struct rdma_device *d)
{
	for (struct conn *c = d->worker->conns; c; c = c->next)
		if (!conn_is_exchange(c) && ((struct rdma_conn *)c->engine_state)->device == d)
			conn_close(c, CONN_END_ERROR);
}

const struct rdma_calls rdma_conn_calls = {
	.gone = rdma_conn_device_gone,
	.completed = { [RDMA_TAG_SEND] = rdma_conn_sent,
		       [RDMA_TAG_READ] = rdma_conn_read,
		       [RDMA_TAG_UNCOUNTED] = rdma_conn_uncounted,
		       [RDMA_TAG_RECV] = rdma_conn_received },
	.requested = rdma_conn_requested,
	.event = rdma_conn_event,
};

static void rdma_conn_peer(const struct conn *c, struct sockaddr_storage *ret_peer)
{
	const struct rdma_conn *r = c->engine_state;

	*ret_peer = r->peer;
}

static void rdma_conn_local(const struct conn *c, struct sockaddr_storage *ret_local)
{
	const struct rdma_conn *r = c->engine_state;
	const void *local = r->id ? rdma_get_local_addr(r->id) : NULL;

	ret_local->ss_family = AF_UNSPEC;
	if (local)
		memcpy(ret_local, local, sockaddr_size(local));
}

static const struct engine_device *rdma_conn_device(const struct conn *c)
{
	const struct rdma_conn *r = c->engine_state;

	return r->port;
}

const struct engine_clients rdma_conn_clients = {
	.peer = rdma_conn_peer,
	.local = rdma_conn_local,
	.device = rdma_conn_device,
};
