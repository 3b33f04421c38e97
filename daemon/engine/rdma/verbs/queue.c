/* Engine `rdma`: the states and the work requests of a connection.  See queue.h. */
#include "queue.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "conn.h"
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

/* The number of receives that must have room, or the client is refused. */
static unsigned rdma_queue_needed(const struct connect_data *connect_data)
{
	return connect_data->receives > 0 ? connect_data->receives : (unsigned)RDMA_RECVS_MIN;
}

bool rdma_queue_fits(const struct rdma_device *d, const struct connect_data *connect_data)
{
	return d->cq_size - d->cq_used >= RDMA_SENDS + rdma_queue_needed(connect_data);
}

/* Sets r->credit and r->posted_max, the connection's number of receives, from the free space of the
 * pool and the completion queue.  The service's number in connect_data is the minimum. */
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
static int rdma_queue_create(struct rdma_conn *r, const struct ibv_qp_init_attr *attr)
{
	for (uint32_t bytes = RDMA_INLINE;; bytes = bytes > 16 ? bytes / 2 : 0) {
		struct ibv_qp_init_attr wanted = *attr;

		wanted.cap.max_inline_data = bytes;
		if (rdma_create_qp(r->id, r->device->pd, &wanted) == 0) {
			r->inline_max = wanted.cap.max_inline_data;
			r->number = r->id->qp->qp_num;
			return 0;
		}
		if (bytes == 0)
			return -errno;
	}
}

int rdma_queue_open(struct rdma_conn *r)
{
	struct rdma_device *d = r->device;
	struct ibv_qp_init_attr attr = {
		.send_cq = d->cq,
		.recv_cq = d->cq,
		.cap = { .max_send_wr = RDMA_SENDS,
			 .max_send_sge = MAX(d->read_sges, d->write_sges) },
		.qp_type = r->type,
	};
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
	return rdma_queue_create(r, &attr);
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

/* ---- Sends ---- */

static const enum rdma_tag rdma_lane_tags[RDMA_LANE_COUNT] = {
	[RDMA_LANE_OUT] = RDMA_TAG_SEND, [RDMA_LANE_IN] = RDMA_TAG_READ
};

void rdma_send_chain_init(struct rdma_send_chain *chain, const struct rdma_conn *r)
{
	unsigned sends = 0, signalled = 0;

	for (unsigned i = 0; i < RDMA_LANE_COUNT; i++) {
		sends += r->lanes[i].sends;
		signalled = MAX(signalled, r->lanes[i].signalled_count);
	}
	chain->count = chain->sge_count = chain->messages = 0;
	memset(chain->of, 0, sizeof(chain->of));
	memset(chain->last, 0, sizeof(chain->last));
	chain->max = signalled < RDMA_SIGNALLED ? RDMA_SENDS - sends : 0;
}

/* Appends a request without views and opcode.  This function and the next one need room. */
static struct ibv_send_wr *rdma_send_chain_add(struct rdma_send_chain *chain, struct rdma_conn *r,
					       enum rdma_request_kind kind)
{
	enum rdma_lane_kind at = rdma_lane_of(kind);
	struct rdma_lane *lane = &r->lanes[at];
	struct ibv_send_wr *wr = &chain->requests[chain->count++];

	*wr = (struct ibv_send_wr){
		.wr_id = (uintptr_t)r | rdma_lane_tags[at],
		.next = wr + 1,
		.sg_list = &chain->sges[chain->sge_count],
	};
	if (unlikely(r->pair_way != NULL)) {
		wr->wr.ud.ah = r->pair_way;
		wr->wr.ud.remote_qpn = r->pair_number;
		wr->wr.ud.remote_qkey = RDMA_PAIR_KEY;
	}
	chain->last[at] = wr;
	chain->of[kind]++;
	lane->since.of[kind]++;
	lane->since.requests++;
	lane->sends++;
	return wr;
}

static void rdma_send_chain_view(struct rdma_send_chain *chain, struct ibv_send_wr *wr,
				 const struct rdma_device *d, const struct view *v)
{
	chain->sges[chain->sge_count++] =
		(struct ibv_sge){ (uintptr_t)v->data, v->len, d->mr->lkey };
	wr->num_sge++;
}

/* Must the last request of the lane be signalled? */
static bool rdma_lane_must_signal(const struct rdma_conn *r, const struct rdma_lane *lane)
{
	return lane->since.bytes > 0 || lane->since.remotes > 0 ||
	       lane->since.requests > RDMA_UNSIGNALLED || (r->conn->flags & CONN_WAITS_FOR_TX);
}

/* Moves the first views of tx, which were posted by these requests, to sending. */
static void rdma_queue_posted(struct rdma_conn *r, const struct ibv_send_wr *wr, unsigned n)
{
	struct conn *c = r->conn;
	struct worker *w = c->worker;

	for (; n > 0; n--, wr++) {
		const struct view *v = c->tx.head;
		bool is_inline = wr->send_flags & IBV_SEND_INLINE;

		assert(v);
		stat_add(w->stats.wr_inline, is_inline);
		if (!is_inline)
			bufq_take(&w->pool, &c->sending, &c->tx, v->len);
		else
			conn_sent(c, &c->tx, v->len, 0);
	}
}

/* An inline message counts as sent once it is posted.  The last one of a connection must not: the
 * disconnection that follows would drop it if the device has not sent it yet. */
bool rdma_send_chain_messages(struct rdma_send_chain *chain, struct rdma_conn *r)
{
	struct rdma_lane *lane = &r->lanes[RDMA_LANE_OUT];
	uint32_t inline_max = r->conn->flags & CONN_LAST ? 0 : r->inline_max;
	const struct view *v;

	for (v = r->conn->tx.head; v && rdma_send_chain_has_room(chain); v = v->next) {
		struct ibv_send_wr *wr = rdma_send_chain_add(chain, r, RDMA_REQUEST_SEND);

		wr->opcode = IBV_WR_SEND;
		if (v->key && r->device->invalidates) {
			wr->opcode = IBV_WR_SEND_WITH_INV;
			wr->invalidate_rkey = v->key;
		}
		rdma_send_chain_view(chain, wr, r->device, v);
		chain->messages++;
		if (v->len <= inline_max)
			wr->send_flags = IBV_SEND_INLINE;
		else
			lane->since.bytes += v->len;
	}
	return !v;
}

bool rdma_send_chain_scratch(struct rdma_send_chain *chain, struct rdma_conn *r)
{
	struct stats *s = &r->conn->worker->stats;
	struct rdma_scratch_sends *sends = &r->scratch_sends;

	for (; sends->count > 0; sends->count--) {
		struct ibv_send_wr *wr;

		if (!rdma_send_chain_has_room(chain))
			return false;
		wr = rdma_send_chain_add(chain, r, RDMA_REQUEST_SEND);
		wr->opcode = IBV_WR_SEND;
		wr->num_sge = 1;
		chain->sges[chain->sge_count++] = rdma_region_sge(r->device->scratch, sends->bytes);
		if (sends->bytes <= r->inline_max) {
			wr->send_flags = IBV_SEND_INLINE;
			stat_add(s->wr_inline, 1);
		}
		stat_add(s->bytes_out, sends->bytes);
		r->conn->bytes_out += sends->bytes;
	}
	return true;
}

static void rdma_lane_signal(struct rdma_conn *r, struct rdma_lane *lane, struct ibv_send_wr *last)
{
	unsigned at = (lane->signalled_first + lane->signalled_count++) % RDMA_SIGNALLED;

	last->send_flags |= IBV_SEND_SIGNALED;
	lane->signalled[at] = lane->since;
	lane->since = (struct rdma_signalled){ 0 };
	stat_add(r->conn->worker->stats.wr_signalled, 1);
}

/* Signals the last request of each lane, if needed; also if not all fitted and none of the lane is
 * signalled: its completion then posts the rest. */
static void rdma_send_chain_signal(struct rdma_send_chain *chain, struct rdma_conn *r, bool all)
{
	for (unsigned i = 0; i < RDMA_LANE_COUNT; i++) {
		struct rdma_lane *lane = &r->lanes[i];

		if (chain->last[i] &&
		    (rdma_lane_must_signal(r, lane) || (!all && lane->signalled_count == 0)))
			rdma_lane_signal(r, lane, chain->last[i]);
	}
}

/* Signals each large request.  siw sends a request of this size without a copy, and reads an
 * unsignalled one from memory even after a later one has completed.  These extra completions are
 * not accounted for. */
static void rdma_send_chain_pin(struct rdma_send_chain *chain, const struct rdma_conn *r)
{
	for (struct ibv_send_wr *wr = chain->requests; wr; wr = wr->next) {
		uint64_t bytes = 0;

		for (int i = 0; i < wr->num_sge; i++)
			bytes += wr->sg_list[i].length;
		if (bytes < RDMA_SENT_LATE || wr->opcode == IBV_WR_RDMA_READ ||
		    (wr->send_flags & IBV_SEND_SIGNALED))
			continue;
		wr->send_flags |= IBV_SEND_SIGNALED;
		wr->wr_id = (uintptr_t)r | RDMA_TAG_UNCOUNTED;
		stat_add(r->conn->worker->stats.wr_signalled, 1);
	}
}

void rdma_send_chain_post(struct rdma_send_chain *chain, struct rdma_conn *r, bool all)
{
	struct conn *c = r->conn;
	struct stats *s = &c->worker->stats;
	struct ibv_send_wr *last = &chain->requests[chain->count - 1], *bad;
	int error;

	last->next = NULL;
	rdma_send_chain_signal(chain, r, all);
	if (r->device->sends_late)
		rdma_send_chain_pin(chain, r);
	stat_add(s->wr_send, chain->of[RDMA_REQUEST_SEND]);
	stat_add(s->wr_read, chain->of[RDMA_REQUEST_READ]);
	stat_add(s->wr_write, chain->of[RDMA_REQUEST_WRITE]);
	stat_add(s->doorbells, 1);
	/* Providers return errno with either sign. */
	error = ibv_post_send(r->id->qp, chain->requests, &bad);
	if (error != 0)
		conn_failed(c, abs(error));
	else
		r->posted_alive = r->posted_total;
	rdma_queue_posted(r, last + 1 - chain->messages, chain->messages);
}

struct rdma_signalled rdma_queue_sent(struct rdma_conn *r, enum rdma_lane_kind kind)
{
	struct rdma_lane *lane = &r->lanes[kind];
	struct stats *s = &r->conn->worker->stats;
	struct rdma_signalled done;

	if (lane->signalled_count == 0)
		return (struct rdma_signalled){ 0 }; /* a flushed request that was not signalled */
	done = lane->signalled[lane->signalled_first];
	lane->signalled_first = (lane->signalled_first + 1) % RDMA_SIGNALLED;
	lane->signalled_count--;
	lane->sends -= done.requests;
	stat_add(s->wc_send, done.of[RDMA_REQUEST_SEND]);
	stat_add(s->wc_read, done.of[RDMA_REQUEST_READ]);
	stat_add(s->wc_write, done.of[RDMA_REQUEST_WRITE]);
	return done;
}

/* ---- One-sided operations ---- */

/* ---- Operations ---- */

static const struct {
	enum ibv_wr_opcode opcode;
	uint8_t kind; /* enum rdma_request_kind */
} rdma_remote_kinds[REMOTE_KIND_COUNT] = {
	[REMOTE_READ] = { IBV_WR_RDMA_READ, RDMA_REQUEST_READ },
	[REMOTE_WRITE] = { IBV_WR_RDMA_WRITE, RDMA_REQUEST_WRITE },
};

void rdma_remote_submit(struct remote *remote)
{
	struct conn *c = remote->conn;
	struct rdma_conn *r = c->engine_state;

	if (!rdma_conn_is_open(r)) {
		remote_finish(remote, -ECANCELED);
		return;
	}
	STAILQ_INSERT_TAIL(&r->unposted, remote, link);
	if (remote->kind == REMOTE_READ && !r->reads) /* such a read would never complete */
		conn_close(c, CONN_END_PROTOCOL);
	rdma_queue_want_receives(r);
}

/* Adds one request, with as many views as fit. */
static void rdma_remote_add_one(struct rdma_conn *r, struct remote *remote,
				struct rdma_send_chain *chain)
{
	const struct rdma_device *d = r->device;
	unsigned max = remote->kind == REMOTE_READ ? d->read_sges : d->write_sges;
	struct ibv_send_wr *wr =
		rdma_send_chain_add(chain, r, rdma_remote_kinds[remote->kind].kind);

	wr->opcode = rdma_remote_kinds[remote->kind].opcode;
	wr->wr.rdma.rkey = remote->key;
	wr->wr.rdma.remote_addr = remote->address + remote->progress;
	/* Room for the request was reserved; the entries of the chain's scatter/gather list
	 * may run out.  A request without an entry must not be posted: siw would read into an
	 * entry of an earlier request. */
	while (remote->unposted && (unsigned)wr->num_sge < max &&
	       chain->sge_count < ARRAY_SIZE(chain->sges)) {
		rdma_send_chain_view(chain, wr, d, remote->unposted);
		remote->progress += remote->unposted->len;
		remote->unposted = remote->unposted->next;
	}
	assert(wr->num_sge > 0);
}

bool rdma_remote_add(struct rdma_conn *r, struct rdma_send_chain *chain)
{
	struct remote *remote;

	while ((remote = STAILQ_FIRST(&r->unposted))) {
		struct rdma_lane *lane =
			&r->lanes[rdma_lane_of(rdma_remote_kinds[remote->kind].kind)];

		while (remote->unposted) {
			if (!rdma_send_chain_has_room(chain))
				return false;
			rdma_remote_add_one(r, remote, chain);
		}
		STAILQ_REMOVE_HEAD(&r->unposted, link);
		STAILQ_INSERT_TAIL(&lane->remotes, remote, link);
		lane->since.remotes++;
	}
	return true;
}

void rdma_remote_completed(struct rdma_lane *lane, unsigned count)
{
	while (count-- > 0) {
		struct remote *remote = STAILQ_FIRST(&lane->remotes);

		assert(remote);
		STAILQ_REMOVE_HEAD(&lane->remotes, link);
		remote_finish(remote, 0);
	}
}

/* ---- Regions ---- */

int rdma_region(struct conn *c, size_t bytes, struct region *ret_region)
{
	struct rdma_conn *r = c->engine_state;
	struct rdma_region *region;
	int rc;

	if (!rdma_conn_is_open(r))
		return -ECANCELED;
	rc = rdma_region_new(r->device, bytes, &region);
	if (rc < 0)
		return rc;
	region->next = r->regions;
	r->regions = region;
	*ret_region = (struct region){ region->base, bytes, region->mr->rkey };
	return 0;
}

/* ---- The scratch region ---- */

void rdma_scratch_region(const struct conn *c, struct region *ret_region)
{
	const struct rdma_conn *r = c->engine_state;
	const struct rdma_region *s = r->device->scratch;

	*ret_region = (struct region){ s->base, s->bytes, s->mr->rkey };
}

unsigned rdma_send_scratch(struct conn *c, uint32_t bytes)
{
	struct rdma_conn *r = c->engine_state;

	if (!rdma_conn_is_open(r) || bytes > r->device->scratch->bytes ||
	    (r->scratch_sends.count > 0 && r->scratch_sends.bytes != bytes))
		return 0;
	r->scratch_sends.bytes = bytes;
	rdma_queue_want_receives(r);
	return ++r->scratch_sends.count;
}

void rdma_remote_open(struct rdma_conn *r)
{
	STAILQ_INIT(&r->unposted);
	for (unsigned i = 0; i < RDMA_LANE_COUNT; i++)
		STAILQ_INIT(&r->lanes[i].remotes);
}

static void rdma_remotes_cancel(struct rdma_remotes *list)
{
	for (struct remote *remote; (remote = STAILQ_FIRST(list));) {
		STAILQ_REMOVE_HEAD(list, link);
		remote_finish(remote, -ECANCELED);
	}
}

void rdma_remote_close(struct rdma_conn *r)
{
	for (unsigned i = 0; i < RDMA_LANE_COUNT; i++)
		rdma_remotes_cancel(&r->lanes[i].remotes);
	rdma_remotes_cancel(&r->unposted);
	while (r->regions) {
		struct rdma_region *region = r->regions;

		r->regions = region->next;
		rdma_region_free(r->device, region);
	}
}
