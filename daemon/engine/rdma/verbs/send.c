/* Engine `rdma`: a connection's send queue.  See queue.h.
 *
 * Requests complete in the order of their posting, except for reads: siw completes what
 * follows a read when it has been sent, and the read when its bytes have arrived.  So a
 * send queue has two lanes. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "conn.h"
#include "queue.h"
#include "remote.h"

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

struct ibv_send_wr *rdma_send_chain_add(struct rdma_send_chain *chain, struct rdma_conn *r,
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

void rdma_send_chain_view(struct rdma_send_chain *chain, struct ibv_send_wr *wr,
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

bool rdma_send_chain_messages(struct rdma_send_chain *chain, struct rdma_conn *r)
{
	struct rdma_lane *lane = &r->lanes[RDMA_LANE_OUT];
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
		if (v->len <= r->inline_max)
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
