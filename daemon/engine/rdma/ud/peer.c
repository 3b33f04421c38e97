/* Engine `rdma`, datagrams: the clients, and what is sent to them.
 *
 * A client begins with its first datagram, once it has an address handle (handle.c), which it
 * keeps as long as it has a place in the table: see peers.h. */
#include <assert.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "conn.h"
#include "grh.h"
#include "queue.h"
#include "ud.h"

/* ---- Sending ---- */

/* ---- Completions ---- */

/* Removes the oldest batch, which has completed. */
static void rdma_ud_pop(struct rdma_ud *ud)
{
	struct rdma_batch b = ud->batches[ud->batch_first];
	struct conn *c;

	ud->batch_first = (ud->batch_first + 1) % RDMA_UD_SENDS;
	ud->batch_count--;
	ud->batches_done++;
	ud->sends -= b.requests;
	if (b.ah)
		ibv_destroy_ah(b.ah);
	if (!b.peer)
		return;
	c = b.peer->peer.conn;
	c->pending--;
	conn_sent(c, &c->sending, b.bytes, 0);
	if (c->flags & CONN_CLOSING)
		conn_ready(c);
}

static void rdma_ud_wake(struct rdma_ud *ud)
{
	while (ud->waiting) {
		struct rdma_peer *peer = ud->waiting;

		ud->waiting = peer->waiting_next;
		peer->waiting = false;
		conn_ready(peer->peer.conn);
	}
}

void rdma_ud_sent(struct rdma_device *d, void *of, const struct ibv_wc *wc)
{
	struct rdma_ud *ud = of;
	struct stats *s = &d->worker->stats;
	bool last = false;

	if (wc->status != IBV_WC_SUCCESS) {
		rdma_queue_count_error(s, wc->status);
		rdma_ud_failed(ud);
		return;
	}
	while (ud->batch_count > 0 && !last) {
		last = ud->batches[ud->batch_first].signalled;
		stat_add(s->wc_send, ud->batches[ud->batch_first].requests);
		rdma_ud_pop(ud);
	}
	rdma_ud_wake(ud);
}

void rdma_ud_forget_sends(struct rdma_ud *ud)
{
	ud->unsignalled = 0;
	while (ud->batch_count > 0)
		rdma_ud_pop(ud);
	rdma_ud_wake(ud);
}

/* ---- Address handles ---- */

/* Destroys the client's address handle, at once or when its last request has completed. Destroying
 * a handle has to wait for the requests that use it: rxe keeps its number in a queued request, even
 * an inline one, looks it up when it sends, and fails the queue pair if there is none. */
static void rdma_ud_destroy_handle(struct rdma_peer *peer)
{
	struct rdma_ud *ud = peer->ud;
	uint64_t left = peer->batches > ud->batches_done ? peer->batches - ud->batches_done : 0;

	if (left > 0)
		ud->batches[(ud->batch_first + left - 1) % RDMA_UD_SENDS].ah = peer->ah;
	else if (peer->ah)
		ibv_destroy_ah(peer->ah);
}

void rdma_ud_destroy_handles(struct rdma_ud *ud)
{
	for (; ud->batch_count > 0; ud->batch_count--) {
		if (ud->batches[ud->batch_first].ah)
			ibv_destroy_ah(ud->batches[ud->batch_first].ah);
		ud->batch_first = (ud->batch_first + 1) % RDMA_UD_SENDS;
	}
}

/* ---- Posting ---- */

static void rdma_ud_posted(struct rdma_peer *peer, unsigned n, bool signalled)
{
	struct conn *c = peer->peer.conn;
	struct worker *w = c->worker;
	struct rdma_ud *ud = peer->ud;
	struct rdma_batch *b = &ud->batches[(ud->batch_first + ud->batch_count++) % RDMA_UD_SENDS];

	*b = (struct rdma_batch){ .requests = n, .signalled = signalled };
	peer->batches = ud->batches_done + ud->batch_count;
	ud->sends += n;
	ud->unsignalled = signalled ? 0 : ud->unsignalled + n;
	while (n-- > 0) {
		uint32_t bytes;

		assert(c->tx.head);
		bytes = c->tx.head->len;
		if (bytes > ud->inline_max) {
			b->bytes += bytes;
			bufq_take(&w->pool, &c->sending, &c->tx, bytes);
		} else {
			stat_add(w->stats.wr_inline, 1);
			conn_sent(c, &c->tx, bytes, 0);
		}
	}
	if (b->bytes > 0) {
		b->peer = peer;
		c->pending++;
	}
}

static void rdma_ud_post(struct rdma_peer *peer, struct ibv_send_wr *requests, unsigned n,
			 bool signalled)
{
	struct rdma_ud *ud = peer->ud;
	struct stats *s = &ud->device->worker->stats;
	struct ibv_send_wr *bad;

	requests[n - 1].next = NULL;
	if (signalled)
		requests[n - 1].send_flags |= IBV_SEND_SIGNALED;
	stat_add(s->wr_signalled, signalled);
	stat_add(s->wr_send, n);
	stat_add(s->doorbells, 1);
	if (ibv_post_send(ud->qp, requests, &bad) != 0)
		rdma_ud_failed(ud);
	rdma_ud_posted(peer, n, signalled);
}

void rdma_ud_flush(struct conn *c)
{
	struct rdma_peer *peer = c->engine_state;
	struct rdma_ud *ud = peer->ud;
	struct ibv_send_wr requests[RDMA_SENDS];
	struct ibv_sge sges[RDMA_SENDS];
	const struct view *v = c->tx.head;
	bool whole = true, room = ud->batch_count < RDMA_UD_SENDS && ud->state == RDMA_UD_WORKS;
	unsigned n = 0;

	for (; room && v && n < RDMA_SENDS && ud->sends + n < RDMA_UD_SENDS; v = v->next, n++) {
		whole &= v->len <= ud->inline_max;
		sges[n] = (struct ibv_sge){ (uintptr_t)v->data, v->len, ud->device->mr->lkey };
		requests[n] = (struct ibv_send_wr){
			.wr_id = (uintptr_t)ud | RDMA_TAG_DATAGRAM_SENT,
			.next = &requests[n + 1],
			.sg_list = &sges[n],
			.num_sge = 1,
			.opcode = IBV_WR_SEND,
			.send_flags = v->len <= ud->inline_max ? IBV_SEND_INLINE : 0,
			.wr.ud = { peer->ah, peer->number, RDMA_UDP_QKEY },
		};
	}
	if (n > 0)
		rdma_ud_post(peer, requests, n,
			     !whole || v || ud->unsignalled + n >= RDMA_UD_SENDS / 2 ||
				     (c->flags & CONN_WAITS_FOR_TX));
	if (!v || peer->waiting)
		return;
	stat_add(c->worker->stats.tx_blocked, 1);
	peer->waiting = true;
	peer->waiting_next = ud->waiting;
	ud->waiting = peer;
}

void rdma_ud_evict(struct peer *peer)
{
	conn_close(peer->conn, CONN_END_IDLE);
}

/* ---- Setup and teardown ---- */

static void rdma_ud_free_peer(struct rdma_peer *peer)
{
	rdma_ud_destroy_handle(peer);
	peer->ud->users--;
	peer->ud->device->users--;
	free(peer);
}

/* As udp_admit(): a full table has room for a new client. */
static int rdma_ud_admit(struct rdma_ud *ud, const struct sockaddr_storage *address,
			 void **ret_ticket)
{
	struct worker *w = ud->device->worker;
	uint64_t max = MIN(w->pool.chunk_count, (unsigned)RDMA_UD_PEERS);

	if (w->options.peers_max)
		max = MIN(max, w->options.peers_max);
	ud->peers.max = (unsigned)max;
	return conn_admit(w, -1, address, ret_ticket);
}

struct rdma_peer *rdma_ud_begin(struct rdma_ud *ud, const struct rdma_ud_client *client,
				struct ibv_ah *ah)
{
	struct worker *w = ud->device->worker;
	struct rdma_peer *peer;
	void *ticket = NULL;

	if (rdma_ud_admit(ud, &client->address, &ticket) < 0) {
		ibv_destroy_ah(ah);
		return NULL;
	}
	peer = calloc(1, sizeof(*peer));
	if (!peer) {
		ibv_destroy_ah(ah);
		w->owner->release(w, ticket);
		stat_add(w->stats.closed_error, 1);
		return NULL;
	}
	peer->ud = ud;
	peer->ah = ah;
	peer->number = client->number;
	peer->address = client->address;
	peer->peer.key = client->key;
	ud->device->users++;
	ud->users++;
	if (conn_start(w, -1, peer, ticket) < 0) {
		rdma_ud_free_peer(peer);
		return NULL;
	}
	return peer->peer.list != PEER_UNKNOWN ? peer : NULL;
}

int rdma_ud_open(struct conn *c)
{
	struct rdma_peer *peer = c->engine_state;

	peer->peer.conn = c;
	peers_add(&peer->ud->peers, &peer->peer, clock_coarse_ns());
	return 0;
}

void rdma_ud_close(struct conn *c)
{
	struct rdma_peer *peer = c->engine_state;

	peers_forget(&peer->ud->peers, &peer->peer);
	bufq_drop(&c->worker->pool, &c->tx, c->tx.bytes);
}

void rdma_ud_release(struct conn *c)
{
	struct rdma_peer *peer = c->engine_state;
	struct rdma_peer **at = &peer->ud->waiting;

	while (peer->waiting && *at != peer)
		at = &(*at)->waiting_next;
	if (peer->waiting)
		*at = peer->waiting_next;
	rdma_ud_free_peer(peer);
}

/* No effect: datagrams cannot be held back, so rdma_ud_deliver() drops them. */
void rdma_ud_recv(struct conn *c, bool on)
{
	(void)c, (void)on;
}

/* The number of the client's queue pair takes the place of a port. */
void rdma_ud_peer(const struct conn *c, struct sockaddr_storage *ret_peer)
{
	const struct rdma_peer *peer = c->engine_state;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret_peer;
	struct sockaddr_in *in = (struct sockaddr_in *)ret_peer;

	*ret_peer = peer->address;
	if (ret_peer->ss_family == AF_INET6)
		in6->sin6_port = htons((uint16_t)peer->number);
	else
		in->sin_port = htons((uint16_t)peer->number);
}

const struct engine_device *rdma_ud_device(const struct conn *c)
{
	const struct rdma_peer *peer = c->engine_state;

	return peer->ud->name;
}

/* ---- Received datagrams ---- */

void rdma_ud_input(struct rdma_peer *peer, struct chunk *k, uint32_t bytes)
{
	struct conn *c = peer->peer.conn;

	if (c->flags & CONN_RECV_OFF) {
		stat_add(c->worker->stats.datagrams_dropped, 1);
		return;
	}
	peers_active(&peer->ud->peers, &peer->peer, clock_coarse_ns());
	if (bytes > GRH_BYTES)
		conn_input(c, k, k->base + GRH_BYTES, bytes - GRH_BYTES);
}
