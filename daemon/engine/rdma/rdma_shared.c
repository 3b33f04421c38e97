/* Engine `rdma`: receives that all connections of a device share (`srq = yes`), and chunks that the
 * device may fill in any order.
 *
 * A completion names the chunk; its connection is found by the number of the queue pair.  What was
 * lent and is not heard of again, because a connection ended in the middle of a message, comes back
 * when the queue is destroyed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "conn.h"
#include "rdma.h"
#include "rdma_ud.h"

/* ---- Lent chunks ---- */

/* Half of what the others leave: however many devices and ports there are, they never have all that
 * can be received into. */
static unsigned rdma_lent_share(const struct worker *w)
{
	const struct rdma *e = w->engine_state;
	unsigned room = w->pool.chunk_count - w->pool.keep;

	for (const struct rdma_device *d = e->devices; d; d = d->next) {
		room -= MIN(room, d->lent.max);
		for (const struct rdma_ud *ud = d->uds; ud; ud = ud->next)
			room -= MIN(room, ud->lent.max);
	}
	return MAX(room / 2, 1U);
}

int rdma_lent_open(struct rdma_lent *lent, const struct worker *w, unsigned most)
{
	const struct pool *p = &w->pool;

	lent->max = MIN(rdma_lent_share(w), most);
	lent->is = calloc(p->chunk_count, sizeof(*lent->is));
	return lent->is ? 0 : -ENOMEM;
}

void rdma_lent_close(struct rdma_lent *lent, struct pool *p)
{
	rdma_lent_forget(lent, p);
	free(lent->is);
	lent->is = NULL;
}

void rdma_lent_forget(struct rdma_lent *lent, struct pool *p)
{
	for (uint32_t i = 0; lent->is && i < p->chunk_count; i++)
		if (lent->is[i])
			rdma_lent_back(lent, p, &p->chunks[i]);
}

bool rdma_lent_back(struct rdma_lent *lent, struct pool *p, struct chunk *k)
{
	if (!lent->is[k->id])
		return false;
	lent->is[k->id] = false;
	lent->count--;
	chunk_put(p, k);
	return true;
}

unsigned rdma_lent_chain(struct rdma_lent *lent, struct worker *w, const struct rdma_device *d,
			 struct rdma_chain *chain, enum rdma_tag tag)
{
	struct pool *p = &w->pool;
	unsigned n = 0;

	for (; n < RDMA_CHAIN_MAX && lent->count < lent->max && p->free_count > p->keep; n++) {
		struct chunk *k = chunk_get(p);

		lent->is[k->id] = true;
		lent->count++;
		chain->sges[n] = (struct ibv_sge){ (uintptr_t)k->base, p->chunk_size, d->mr->lkey };
		chain->requests[n] = (struct ibv_recv_wr){ .wr_id = (uintptr_t)k | tag,
							   .next = &chain->requests[n + 1],
							   .sg_list = &chain->sges[n],
							   .num_sge = 1 };
	}
	if (n == 0)
		return 0;
	chain->requests[n - 1].next = NULL;
	stat_add(w->stats.wr_recv, n);
	stat_add(w->stats.doorbells, 1);
	return n;
}

/* ---- The queue ---- */

int rdma_shared_open(struct rdma_device *d, struct reason *reason)
{
	struct worker *w = d->worker;
	struct ibv_srq_init_attr attr = { .attr = { .max_sge = 1 } };
	unsigned most = (unsigned)MAX(d->limits.max_srq_wr, 1);

	if (rdma_lent_open(&d->lent, w, MIN(most, (unsigned)RDMA_SHARED_MAX)) < 0)
		return reason_set(reason, -ENOMEM, "no memory");
	attr.attr.max_wr = d->lent.max;
	d->srq = ibv_create_srq(d->pd, &attr);
	if (!d->srq)
		return reason_set(reason, -errno,
				  "%s: no shared receive queue: %s; srq = no, or another device",
				  ibv_get_device_name(d->verbs->device), strerror(errno));
	d->cq_used += d->lent.max;
	worker_feature(w, FEATURE_shared_receives);
	rdma_small_open(d);
	rdma_shared_feed(d);
	return 0;
}

void rdma_shared_close(struct rdma_device *d)
{
	if (d->srq)
		ibv_destroy_srq(d->srq);
	rdma_lent_close(&d->lent, &d->worker->pool);
	rdma_small_close(d);
}

void rdma_shared_feed(struct rdma_device *d)
{
	struct rdma_chain chain;
	struct ibv_recv_wr *bad;

	if (d->lent.max - d->lent.count < MIN(d->lent.max / 8, (unsigned)RDMA_CHAIN_MAX))
		return;
	while (!d->gone && d->lent.count < d->lent.max &&
	       rdma_lent_chain(&d->lent, d->worker, d, &chain, RDMA_TAG_SHARED) > 0)
		if (ibv_post_srq_recv(d->srq, chain.requests, &bad) != 0)
			return;
}

/* ---- Whose a completion is ---- */

static struct rdma_conn **rdma_shared_bucket(struct rdma_device *d, uint32_t number)
{
	return &d->by_number[number % RDMA_NUMBERS];
}

void rdma_shared_add(struct rdma_conn *r)
{
	struct rdma_conn **bucket = rdma_shared_bucket(r->device, r->number);

	r->number_next = *bucket;
	*bucket = r;
}

void rdma_shared_remove(struct rdma_conn *r)
{
	struct rdma_conn **at = rdma_shared_bucket(r->device, r->number);

	while (*at && *at != r)
		at = &(*at)->number_next;
	if (*at)
		*at = r->number_next;
}

/* Nothing makes one client wait alone.  When few receives are left, and no chunk for another, who
 * has a great part of them in its hands does not take its answers, and would take the others' too.
 * As many as it could have by itself are anybody's right. */
static bool rdma_shared_is_greedy(const struct rdma_device *d, const struct conn *c)
{
	const struct pool *p = &c->worker->pool;
	unsigned part = d->lent.max / 4;

	return d->lent.count < part && p->free_count <= p->keep &&
	       conn_held_views(c) >= MAX(part, (unsigned)RDMA_HELD);
}

/* It may be one of many who together have them all: worker_relieve() finds out who takes nothing.
 */
static void rdma_shared_is_taken(struct rdma_device *d, struct conn *c)
{
	if (rdma_shared_is_greedy(d, c))
		conn_close(c, CONN_END_PROTOCOL);
	else if (d->lent.count == 0 && d->worker->pool.free_count <= d->worker->pool.keep)
		conn_starved_input(c);
}

void rdma_shared_received(struct rdma_device *d, struct chunk *k, const struct ibv_wc *wc)
{
	struct worker *w = d->worker;
	struct rdma_conn *r = *rdma_shared_bucket(d, wc->qp_num);

	while (r && r->number != wc->qp_num)
		r = r->number_next;
	if (wc->status == IBV_WC_SUCCESS)
		stat_add(w->stats.wc_recv, 1);
	if (r && rdma_wc_is_input(wc))
		conn_input(r->conn, k, k->base, wc->byte_len);
	rdma_lent_back(&d->lent, &w->pool, k);
	if (r && wc->status == IBV_WC_SUCCESS)
		rdma_shared_is_taken(d, r->conn);
	if (wc->status != IBV_WC_SUCCESS && r)
		rdma_queue_failed(r, wc->status);
}
