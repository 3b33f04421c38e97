/* Engine `rdma`: receives that all connections of a device share (`srq = yes`).
 *
 * A completion names the chunk; its connection is found by the number of the queue pair.
 *
 * rxe never completes a receive whose connection ended in the middle of a message, and reports
 * nothing.  But it takes receives in the order of their posting, and refuses more than its queue
 * has room for.  So after a connection has ended, receives are posted until one is refused: all
 * posted ones but those that fit into the queue have then been taken.  A taken receive that has not
 * completed either belongs to a connection that was open when it was taken and has completed none
 * posted later, or it is lost: then its chunk is taken back. */
#include "queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "conn.h"

enum {
	RDMA_SHARED_MAX = 1024, /* receives */
	RDMA_HELD = 24,         /* of these, received messages that a connection may always hold */
};

struct rdma_shared {
	struct ibv_srq *srq;
	struct rdma_lent lent;
	unsigned entries; /* entries of the completion queue reserved for it */
	/* If d->loses_receives: the number of receives posted so far, of which the device has taken
	 * `taken`, if not more; by chunk id, its number when it was posted last. */
	uint64_t posted, taken;
	uint64_t *numbers;
	unsigned fits; /* receives in the queue at a time */
	bool ended;    /* a connection has, since the queue was filled */
	struct rdma_conn *by_number[RDMA_NUMBERS];
};

/* ---- The queue ---- */

/* Prepares for a device that loses receives.  Its queues have room for a power of
 * two less one. 0 or -ENOMEM. */
static int rdma_shared_count(const struct rdma_device *d, struct rdma_shared *s)
{
	unsigned fits = 1;

	if (!d->loses_receives)
		return 0;
	while (2 * fits + 1 <= s->lent.max)
		fits = 2 * fits + 1;
	rdma_lent_limit(&s->lent, d->worker, fits);
	s->numbers = calloc(d->worker->pool.chunk_count, sizeof(*s->numbers));
	return s->numbers ? 0 : -ENOMEM;
}

static int rdma_shared_make(struct rdma_device *d, struct rdma_shared *s, struct reason *reason)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_sge = 1 } };
	unsigned most = (unsigned)MAX(d->limits.max_srq_wr, 1);

	if (rdma_lent_open(&s->lent, d->worker, MIN(most, (unsigned)RDMA_SHARED_MAX)) < 0 ||
	    rdma_shared_count(d, s) < 0)
		return reason_set(reason, -ENOMEM, "no memory");
	s->entries = s->numbers ? 2 * s->lent.max : s->lent.max; /* taken and left ones */
	if (rdma_device_reserve(d, s->entries) < 0) {
		s->entries = 0;
		return rdma_device_refuse(d, -ENOSPC, "too small a completion queue",
					  "; srq = no, or another device", reason);
	}
	attr.attr.max_wr = s->lent.max;
	s->srq = ibv_create_srq(d->pd, &attr);
	s->fits = MAX(attr.attr.max_wr, s->lent.max);
	if (!s->srq)
		return rdma_device_refuse(d, -errno, "no shared receive queue",
					  "; srq = no, or another device", reason);
	return 0;
}

int rdma_shared_open(struct rdma_device *d, struct reason *reason)
{
	d->shared = calloc(1, sizeof(*d->shared));
	if (!d->shared)
		return reason_set(reason, -ENOMEM, "no memory");
	if (rdma_shared_make(d, d->shared, reason) < 0)
		return -EIO; /* rdma_shared_close() follows */
	worker_feature(d->worker, FEATURE_shared_receives);
	rdma_small_open(d);
	rdma_shared_feed(d);
	return 0;
}

void rdma_shared_close(struct rdma_device *d)
{
	struct rdma_shared *s = d->shared;

	if (!s)
		return;
	if (s->srq)
		ibv_destroy_srq(s->srq);
	rdma_lent_close(&s->lent, d->worker);
	rdma_device_unreserve(d, s->entries);
	free(s->numbers);
	free(s);
	d->shared = NULL;
}

struct ibv_srq *rdma_shared_queue(const struct rdma_device *d)
{
	return d->shared ? d->shared->srq : NULL;
}

/* ---- Lost receives ---- */

/* Upper bound of the receives that the device has not taken yet. */
static unsigned rdma_shared_left(const struct rdma_shared *s)
{
	return s->numbers ? (unsigned)(s->posted - s->taken) : s->lent.count;
}

/* The connection that may have the oldest receives which have not
 * completed; NULL: there is none. */
static struct rdma_conn *rdma_shared_oldest(const struct rdma_shared *s)
{
	struct rdma_conn *oldest = NULL;

	for (unsigned i = 0; i < RDMA_NUMBERS; i++)
		for (struct rdma_conn *r = s->by_number[i]; r; r = r->number_next)
			if (!oldest || r->shared_seen < oldest->shared_seen)
				oldest = r;
	return oldest;
}

/* Takes back the chunks of lost receives.  If many are taken of which that is not certain, ends the
 * connection that was silent for longest: lost receives must not stop all others. */
static void rdma_shared_find(struct rdma_device *d)
{
	struct rdma_shared *s = d->shared;
	struct pool *p = &d->worker->pool;
	struct rdma_conn *oldest;
	uint64_t lost;

	if (s->lent.count <= rdma_shared_left(s))
		return;
	oldest = rdma_shared_oldest(s);
	lost = oldest ? MIN(oldest->shared_seen, s->taken) : s->taken;
	for (uint32_t i = 0; i < p->chunk_count; i++)
		if (s->lent.is[i] && s->numbers[i] <= lost)
			rdma_lent_back(&s->lent, p, &p->chunks[i]);
	if (oldest && s->lent.count - rdma_shared_left(s) > s->lent.max / 2)
		conn_close(oldest->conn, CONN_END_ERROR);
}

/* ---- Posting ---- */

/* Posts up to `most` receives.  False: no more can be posted. */
static bool rdma_shared_post(struct rdma_device *d, unsigned most)
{
	struct rdma_shared *s = d->shared;
	struct rdma_chain chain;
	struct ibv_recv_wr *bad = NULL;

	if (rdma_lent_chain(&s->lent, d->worker, d, &chain, RDMA_TAG_SHARED, most) == 0)
		return false;
	if (ibv_post_srq_recv(s->srq, chain.requests, &bad) == 0)
		bad = NULL;
	for (struct ibv_recv_wr *wr = chain.requests; s->numbers && wr != bad; wr = wr->next)
		s->numbers[rdma_lent_chunk(wr)->id] = ++s->posted;
	if (s->posted - s->taken > s->fits)
		s->taken = s->posted - s->fits;
	if (!bad)
		return true;
	rdma_lent_not_posted(&s->lent, d->worker, bad);
	s->ended = false;
	return false;
}

void rdma_shared_feed(struct rdma_device *d)
{
	struct rdma_shared *s = d->shared;
	unsigned max = s->lent.max;

	if (d->gone)
		return;
	if (s->numbers && s->ended) {
		while (rdma_shared_post(d, max))
			continue;
		rdma_shared_find(d);
	}
	if (max - MIN(rdma_shared_left(s), max) < MIN(max / 8, (unsigned)RDMA_CHAIN_MAX))
		return;
	while (rdma_shared_left(s) < max && rdma_shared_post(d, max - rdma_shared_left(s)))
		continue;
}

/* ---- The connection of a completion ---- */

static struct rdma_conn **rdma_shared_bucket(struct rdma_device *d, uint32_t number)
{
	return &d->shared->by_number[number % RDMA_NUMBERS];
}

void rdma_shared_add(struct rdma_conn *r)
{
	struct rdma_conn **bucket;

	if (!r->device->shared)
		return;
	r->shared_seen = r->device->shared->taken;
	bucket = rdma_shared_bucket(r->device, r->number);
	r->number_next = *bucket;
	*bucket = r;
}

void rdma_shared_remove(struct rdma_conn *r)
{
	struct rdma_conn **at;

	if (!r->device->shared)
		return;
	at = rdma_shared_bucket(r->device, r->number);
	while (*at && *at != r)
		at = &(*at)->number_next;
	if (*at)
		*at = r->number_next;
	r->device->shared->ended = true;
}

/* Shared receives cannot hold back a single client.  True: few receives are left and no chunk for
 * another, and c holds a great part of them, as its client does not take its answers, so it would
 * also use those of other clients.  RDMA_HELD messages are always allowed. */
static bool rdma_shared_is_greedy(const struct rdma_shared *s, const struct conn *c)
{
	const struct pool *p = &c->worker->pool;
	unsigned part = s->lent.max / 4;

	return rdma_shared_left(s) < part && p->free_count <= p->keep &&
	       conn_held_views(c) >= MAX(part, (unsigned)RDMA_HELD);
}

/* Ends a greedy connection.  If many connections together hold all receives,
 * worker_check_pressure() finds those whose peers take nothing. */
static void rdma_shared_is_taken(const struct rdma_shared *s, struct conn *c)
{
	const struct pool *p = &c->worker->pool;

	if (rdma_shared_is_greedy(s, c))
		conn_close(c, CONN_END_PROTOCOL);
	else if (rdma_shared_left(s) == 0 && p->free_count <= p->keep)
		conn_wait_to_receive(c);
}

static void rdma_shared_completed(struct rdma_shared *s, const struct chunk *k, struct rdma_conn *r)
{
	if (!s->numbers)
		return;
	s->taken = MAX(s->taken, s->numbers[k->id]);
	if (r)
		r->shared_seen = MAX(r->shared_seen, s->numbers[k->id]);
}

struct rdma_conn *rdma_shared_received(struct rdma_device *d, struct chunk *k,
				       const struct ibv_wc *wc)
{
	struct worker *w = d->worker;
	struct rdma_shared *s = d->shared;
	struct rdma_conn *r = *rdma_shared_bucket(d, wc->qp_num);

	while (r && r->number != wc->qp_num)
		r = r->number_next;
	if (wc->status == IBV_WC_SUCCESS)
		stat_add(w->stats.wc_recv, 1);
	if (r && rdma_wc_is_input(wc))
		conn_input(r->conn, k, k->base, wc->byte_len);
	rdma_shared_completed(s, k, r);
	rdma_lent_back(&s->lent, &w->pool, k);
	if (r && wc->status == IBV_WC_SUCCESS)
		rdma_shared_is_taken(s, r->conn);
	return r;
}
