/* Engine `rdma`: receives that all connections of a device share (`srq = yes`).
 *
 * A completion names the chunk; its connection is found by the number of the queue pair.  A chunk
 * whose receive never completes, because a connection ended in the middle of a message, is taken
 * back when the queue is destroyed. */
#include "rdma_shared.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "conn.h"
#include "rdma_lent.h"

enum {
	RDMA_SHARED_MAX = 1024, /* receives */
	RDMA_HELD = 24,         /* of these, received messages that a connection may always hold */
};

struct rdma_shared {
	struct ibv_srq *srq;
	struct rdma_lent lent;
	unsigned entries; /* entries of the completion queue reserved for it */
	struct rdma_conn *by_number[RDMA_NUMBERS];
};

/* ---- The queue ---- */

static int rdma_shared_make(struct rdma_device *d, struct rdma_shared *s, struct reason *reason)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_sge = 1 } };
	unsigned most = (unsigned)MAX(d->limits.max_srq_wr, 1);

	if (rdma_lent_open(&s->lent, d->worker, MIN(most, (unsigned)RDMA_SHARED_MAX)) < 0)
		return reason_set(reason, -ENOMEM, "no memory");
	if (rdma_device_reserve(d, s->lent.max) < 0)
		return rdma_device_refuse(d, -ENOSPC, "too small a completion queue",
					  "; srq = no, or another device", reason);
	s->entries = s->lent.max;
	attr.attr.max_wr = s->lent.max;
	s->srq = ibv_create_srq(d->pd, &attr);
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
	free(s);
	d->shared = NULL;
}

struct ibv_srq *rdma_shared_queue(const struct rdma_device *d)
{
	return d->shared ? d->shared->srq : NULL;
}

void rdma_shared_feed(struct rdma_device *d)
{
	struct rdma_lent *lent = &d->shared->lent;
	struct rdma_chain chain;
	struct ibv_recv_wr *bad = NULL;

	if (lent->max - lent->count < MIN(lent->max / 8, (unsigned)RDMA_CHAIN_MAX))
		return;
	while (!d->gone && lent->count < lent->max &&
	       rdma_lent_chain(lent, d->worker, d, &chain, RDMA_TAG_SHARED) > 0)
		if (ibv_post_srq_recv(d->shared->srq, chain.requests, &bad) != 0) {
			rdma_lent_not_posted(lent, &d->worker->pool, bad);
			return;
		}
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
}

/* Shared receives cannot hold back a single client.  True: few receives are left and no chunk for
 * another, and c holds a great part of them, as its client does not take its answers, so it would
 * also use those of other clients.  RDMA_HELD messages are always allowed. */
static bool rdma_shared_is_greedy(const struct rdma_lent *lent, const struct conn *c)
{
	const struct pool *p = &c->worker->pool;
	unsigned part = lent->max / 4;

	return lent->count < part && p->free_count <= p->keep &&
	       conn_held_views(c) >= MAX(part, (unsigned)RDMA_HELD);
}

/* Ends a greedy connection.  If many connections together hold all receives, worker_relieve() finds
 * those whose peers take nothing. */
static void rdma_shared_is_taken(const struct rdma_lent *lent, struct conn *c)
{
	const struct pool *p = &c->worker->pool;

	if (rdma_shared_is_greedy(lent, c))
		conn_close(c, CONN_END_PROTOCOL);
	else if (lent->count == 0 && p->free_count <= p->keep)
		conn_starved_input(c);
}

struct rdma_conn *rdma_shared_received(struct rdma_device *d, struct chunk *k,
				       const struct ibv_wc *wc)
{
	struct worker *w = d->worker;
	struct rdma_lent *lent = &d->shared->lent;
	struct rdma_conn *r = *rdma_shared_bucket(d, wc->qp_num);

	while (r && r->number != wc->qp_num)
		r = r->number_next;
	if (wc->status == IBV_WC_SUCCESS)
		stat_add(w->stats.wc_recv, 1);
	if (r && rdma_wc_is_input(wc))
		conn_input(r->conn, k, k->base, wc->byte_len);
	rdma_lent_back(lent, &w->pool, k);
	if (r && wc->status == IBV_WC_SUCCESS)
		rdma_shared_is_taken(lent, r->conn);
	return r;
}
