/* Engine `rdma`, datagrams: the clients.
 *
 * A client begins with its first datagram, once it has an address handle (handle.c), which it
 * keeps as long as it has a place in the table: see peers.h. */
#include <netinet/in.h>
#include <stdlib.h>

#include "conn.h"
#include "grh.h"
#include "ud.h"

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
