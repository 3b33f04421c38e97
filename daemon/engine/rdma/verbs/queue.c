/* Engine `rdma`: the states and the work requests of a connection.  See queue.h. */
#include "queue.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "conn.h"
#include "rdma_keys.h"
#include "remote.h"

/* ---- States ---- */

#define TO(state) (1U << (state))

/* For each state, the bit mask of states that may follow. */
static const unsigned rdma_states[RDMA_STATE_COUNT] = {
	[RDMA_NEW] = TO(RDMA_OPENING),    [RDMA_OPENING] = TO(RDMA_ACCEPTED) | TO(RDMA_REFUSED),
	[RDMA_ACCEPTED] = TO(RDMA_ENDED), [RDMA_REFUSED] = TO(RDMA_GONE),
	[RDMA_ENDED] = TO(RDMA_GONE),
};

void rdma_conn_become(struct rdma_conn *r, enum rdma_state state)
{
	struct rdma *e = r->conn->worker->engine_state;

	assert(rdma_states[r->state] & TO(state));
	r->state = state;
	switch (state) {
	case RDMA_OPENING:
		r->conn->pending++;
		break;
	case RDMA_REFUSED:
	case RDMA_ENDED:
		r->ending_next = e->ending;
		e->ending = r;
		break;
	case RDMA_GONE:
		r->conn->pending--;
		conn_ready(r->conn);
		break;
	default:
		break;
	}
}

/* ---- The queue pair ---- */

/* A connection's share of the pool: with ten connections each has plenty,
 * and a hundred still fit. */
static unsigned rdma_queue_share(const struct pool *p)
{
	return p->free_count > p->keep ? (p->free_count - p->keep) / RDMA_RECVS_PART : 0;
}

/* Receives of a client that only sends, over iWARP: as many as device and pool allow. iWARP ends a
 * connection whose message finds no receive, and such a client has no other flow control. */
static unsigned rdma_queue_depth(const struct rdma_device *d, const struct pool *p)
{
	unsigned room = (d->cq_size - d->cq_used) / RDMA_CQ_PART;

	return MIN(MIN(p->chunk_count - p->keep, room), (unsigned)d->limits.max_qp_wr);
}

static uint32_t rdma_queue_message_max(const struct pool *p,
				       const struct connect_data *connect_data)
{
	uint32_t wanted = (connect_data->message_max + RDMA_SLOT_ALIGN - 1) / RDMA_SLOT_ALIGN *
			  RDMA_SLOT_ALIGN;

	return wanted > 0 && wanted < p->chunk_size ? wanted : p->chunk_size;
}

unsigned rdma_queue_chunks(const struct pool *p, const struct connect_data *connect_data)
{
	unsigned in_one = p->chunk_size / rdma_queue_message_max(p, connect_data);

	return MAX((connect_data->receives + in_one - 1) / in_one, (unsigned)RDMA_RECVS_MIN);
}

/* Receives without which a client is refused. */
static unsigned rdma_queue_needed(const struct connect_data *connect_data)
{
	return connect_data->receives > 0 ? connect_data->receives : (unsigned)RDMA_RECVS_MIN;
}

bool rdma_queue_fits(const struct rdma_device *d, const struct connect_data *connect_data)
{
	return d->cq_size - d->cq_used >= RDMA_SENDS + rdma_queue_needed(connect_data);
}

/* Computes how many receives the connection gets by the state of the pool and of the completion
 * queue, at least those that its service has promised in the connect_data. */
static void rdma_queue_size(struct rdma_conn *r, const struct pool *p)
{
	const struct rdma_device *d = r->device;
	unsigned share = rdma_queue_share(p), room = d->cq_size - d->cq_used - RDMA_SENDS;

	if (r->connect_data.receives > 0) {
		r->credit = r->connect_data.receives;
		r->posted_max = MIN(r->credit + MIN(share, (unsigned)RDMA_CREDIT), room);
		return;
	}
	r->credit = MIN(MIN(MAX(share, (unsigned)RDMA_RECVS_MIN), (unsigned)RDMA_CREDIT), room);
	r->posted_max = MIN(MIN(r->credit + share, (unsigned)RDMA_RECVS), room);
	if (r->deep)
		r->posted_max = MAX(r->posted_max, rdma_queue_depth(r->device, p));
}

/* Verbs refuse too many inline bytes rather than grant fewer, so this tries smaller numbers. */
int rdma_queue_create(struct rdma_device *d, struct rdma_cm_id *id,
		      const struct ibv_qp_init_attr *attr, uint32_t *ret_inline,
		      struct ibv_qp **ret_qp)
{
	for (uint32_t bytes = RDMA_INLINE;; bytes = bytes > 16 ? bytes / 2 : 0) {
		struct ibv_qp_init_attr wanted = *attr;
		struct ibv_qp *qp = NULL;

		wanted.cap.max_inline_data = bytes;
		if (!id)
			qp = ibv_create_qp(d->pd, &wanted);
		else if (rdma_create_qp(id, d->pd, &wanted) == 0)
			qp = id->qp;
		if (qp) {
			*ret_inline = wanted.cap.max_inline_data;
			*ret_qp = qp;
			return 0;
		}
		if (bytes == 0)
			return -errno;
	}
}

int rdma_queue_open(struct rdma_conn *r)
{
	struct rdma_device *d = r->device;
	enum ibv_qp_type own =
		rdma_options(&d->worker->options)->qp_type == QP_UC ? IBV_QPT_UC : IBV_QPT_RC;
	struct ibv_qp_init_attr attr = {
		.send_cq = d->cq,
		.recv_cq = d->cq,
		.cap = { .max_send_wr = RDMA_SENDS,
			 .max_send_sge = MAX(d->read_sges, d->write_sges) },
		.qp_type = r->pair ? r->pair_type : own,
	};
	struct ibv_qp *qp = NULL;
	int rc;

	r->deep = (d->worker->service->flags & SERVICE_ONE_WAY) &&
		  d->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
	rdma_queue_size(r, &d->worker->pool);
	r->posted = calloc(r->posted_max, sizeof(*r->posted));
	if (!r->posted)
		return -ENOMEM;
	attr.cap.max_recv_wr = r->posted_max;
	attr.cap.max_recv_sge = d->scratch ? 2 : 1;
	rc = rdma_device_reserve(d, RDMA_SENDS + r->posted_max);
	if (rc < 0)
		return rc;
	r->entries = RDMA_SENDS + r->posted_max;
	rc = rdma_queue_create(d, r->id, &attr, &r->inline_max, &qp);
	if (qp)
		r->number = qp->qp_num;
	return rc;
}

void rdma_queue_close(struct rdma_conn *r)
{
	struct conn *c = r->conn;
	struct pool *p = &c->worker->pool;

	for (; r->posted_count > 0; r->posted_count--) {
		chunk_put(p, r->posted[r->posted_first].chunk);
		r->posted_first = (r->posted_first + 1) % r->posted_max;
	}
	free(r->posted);
	r->posted = NULL;
	if (r->slots_in)
		chunk_put(p, r->slots_in);
	r->slots_in = NULL;
	/* Posted messages count as sent, as with a socket: acknowledgements of the last messages
	 * often arrive too late to complete them. */
	stat_add(c->worker->stats.bytes_out, c->sending.bytes);
	c->bytes_out += c->sending.bytes;
	bufq_drop(p, &c->sending, c->sending.bytes);
	bufq_drop(p, &c->tx, c->tx.bytes);
	rdma_device_unreserve(r->device, r->entries);
	r->entries = 0;
}

/* ---- Receives ---- */

void rdma_queue_want_receives(struct rdma_conn *r)
{
	struct rdma *e = r->conn->worker->engine_state;

	if (r->wants_receives || !rdma_conn_is_open(r))
		return;
	r->wants_receives = true;
	r->wanting_next = e->wanting;
	e->wanting = r;
}

/* The last chunks of the pool are reserved for services, except for the few receives that a client
 * needs to answer what was sent to it. */
static bool rdma_queue_may_receive(const struct rdma_conn *r, const struct pool *p, unsigned posted)
{
	return r->slots_in ||
	       p->free_count > (posted < rdma_queue_needed(&r->connect_data) ? 0 : p->keep);
}

/* Room for one message: a chunk, or the next part of a shared one.  The caller has checked that the
 * pool has a chunk. */
static struct rdma_posted rdma_queue_slot(struct rdma_conn *r, struct pool *p, uint32_t bytes)
{
	struct chunk *k = r->slots_in ? r->slots_in : chunk_get(p);
	struct rdma_posted slot = { .chunk = k, .data = k->base + k->used };

	k->used += bytes;
	r->slots_in = NULL;
	if (k->used + bytes <= p->chunk_size) {
		k->refs++;
		r->slots_in = k;
	}
	return slot;
}

/* An active client has more receives posted than its credit, so that fewer calls are needed; an
 * idle one has not.  One whose input is paused has only what its service has promised: the client
 * may send that many messages beside those that are held. */
static unsigned rdma_queue_wanted(const struct rdma_conn *r, const struct pool *p)
{
	unsigned room = p->free_count > p->keep ? p->free_count - p->keep : 0;
	unsigned promised = r->connect_data.receives, held = (unsigned)r->conn->rx.views;

	if (r->conn->flags & CONN_RECV_OFF)
		return promised > held ? promised - held : 0;
	if (r->deep && r->posted_total > r->posted_count)
		return MIN(MAX((r->posted_count + room) / RDMA_RECVS_DEEP, r->credit),
			   r->posted_max);
	if (r->state == RDMA_ACCEPTED || r->deep)
		return MIN(r->credit + rdma_queue_share(p), r->posted_max);
	return r->credit;
}

/* Receives are posted again below this number. */
static unsigned rdma_queue_low(const struct rdma_conn *r, unsigned wanted)
{
	return r->deep ? MAX(wanted - wanted / 8, r->credit) : r->credit;
}

/* Posts as many receives as one call can; returns their number. */
static unsigned rdma_queue_post(struct rdma_conn *r, unsigned wanted)
{
	struct worker *w = r->conn->worker;
	struct pool *p = &w->pool;
	struct ibv_recv_wr requests[RDMA_RECVS_CHAIN], *bad;
	struct ibv_sge sges[RDMA_RECVS_CHAIN][2];
	const struct rdma_region *scratch = r->device->scratch;
	uint32_t bytes = rdma_queue_message_max(p, &r->connect_data);
	unsigned n = 0;

	for (; n < RDMA_RECVS_CHAIN && r->posted_count + n < wanted &&
	       rdma_queue_may_receive(r, p, r->posted_count + n);
	     n++) {
		struct rdma_posted slot = rdma_queue_slot(r, p, bytes);

		slot.first = n == 0;
		r->posted[(r->posted_first + r->posted_count + n) % r->posted_max] = slot;
		sges[n][0] = (struct ibv_sge){ (uintptr_t)slot.data, bytes, r->device->mr->lkey };
		if (scratch)
			sges[n][1] = rdma_region_sge(scratch, scratch->bytes);
		requests[n] = (struct ibv_recv_wr){ .wr_id = (uintptr_t)r | RDMA_TAG_RECV,
						    .next = &requests[n + 1],
						    .sg_list = sges[n],
						    .num_sge = scratch ? 2 : 1 };
	}
	if (n == 0)
		return 0;
	requests[n - 1].next = NULL;
	r->posted_count += n;
	r->posted_total += n;
	stat_add(w->stats.wr_recv, n);
	stat_add(w->stats.doorbells, 1);
	if (ibv_post_recv(r->id->qp, requests, &bad) != 0)
		conn_failed(r->conn, errno ? errno : EIO);
	return n;
}

void rdma_queue_refill(struct rdma_conn *r)
{
	struct conn *c = r->conn;
	unsigned wanted;

	if (!rdma_conn_is_open(r) || !r->posted || (c->flags & (CONN_EOF | CONN_CLOSING)))
		return;
	wanted = rdma_queue_wanted(r, &c->worker->pool);
	if (r->posted_count >= MIN(wanted, rdma_queue_low(r, wanted)))
		return;
	while (r->posted_count < wanted && rdma_conn_is_open(r) && rdma_queue_post(r, wanted) > 0)
		continue;
	if (r->posted_count == 0)
		conn_wait_to_receive(c);
}

bool rdma_queue_is_used_up(const struct rdma_conn *r)
{
	uint64_t received = r->posted_total - r->posted_count;

	if (r->stopped)
		return r->used_up;
	return received > 0 && received >= r->posted_alive &&
	       (r->posted_count == 0 || r->posted[r->posted_first].first);
}

void rdma_queue_received(struct rdma_conn *r, const struct ibv_wc *wc)
{
	struct conn *c = r->conn;
	struct rdma_posted slot = r->posted[r->posted_first];
	uint32_t header = r->pair_way ? sizeof(struct ibv_grh) : 0; /* before each datagram */
	uint32_t bytes = rdma_wc_is_input(wc) ? wc->byte_len - header : 0;

	assert(r->posted_count > 0);
	if (wc->status != IBV_WC_SUCCESS) {
		r->used_up = rdma_queue_is_used_up(r);
		r->stopped = true;
	}
	r->posted_first = (r->posted_first + 1) % r->posted_max;
	r->posted_count--;
	stat_add(c->worker->stats.wc_recv, wc->status == IBV_WC_SUCCESS);
	if (bytes > 0 && r->device->scratch)
		remote_message(c, slot.data + header, bytes);
	else if (bytes > 0)
		conn_input(c, slot.chunk, slot.data + header, bytes);
	chunk_put(&c->worker->pool, slot.chunk);
	rdma_queue_want_receives(r);
}

void rdma_queue_count_error(struct stats *s, enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_WR_FLUSH_ERR:
		stat_add(s->wc_err_flushed, 1);
		break;
	case IBV_WC_RNR_RETRY_EXC_ERR:
		stat_add(s->wc_err_rnr, 1);
		break;
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RESP_TIMEOUT_ERR:
		stat_add(s->wc_err_retry, 1);
		break;
	case IBV_WC_LOC_LEN_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
		stat_add(s->wc_err_length, 1);
		break;
	case IBV_WC_LOC_PROT_ERR:
	case IBV_WC_LOC_ACCESS_ERR:
	case IBV_WC_REM_ACCESS_ERR:
		stat_add(s->wc_err_access, 1);
		break;
	default:
		stat_add(s->wc_err_other, 1);
	}
}
