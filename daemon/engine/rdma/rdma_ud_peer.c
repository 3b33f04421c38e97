/* Engine `rdma`, datagrams: the clients.
 *
 * A client begins with its first datagram and has an address handle, which costs a system call to
 * make, as long as it has a place: until it is idle for too long, or peer_max others have sent
 * something since. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "conn.h"
#include "grh.h"
#include "parse.h"
#include "rdma_ud.h"

/* ---- The cache ---- */

static struct rdma_peer **rdma_ud_bucket(struct rdma_ud *ud, const struct sockaddr_storage *address,
					 uint32_t number)
{
	struct in6_addr ip = sockaddr_mapped(address);
	uint64_t parts[2];

	memcpy(parts, &ip, sizeof(parts));
	parts[0] = (parts[0] ^ parts[1] ^ number) * UINT64_C(0x9E3779B97F4A7C15);
	return &ud->peers[(parts[0] >> 32) % RDMA_UD_BUCKETS];
}

static void rdma_ud_unlink_age(struct rdma_peer *peer)
{
	struct rdma_ud *ud = peer->ud;

	*(peer->newer ? &peer->newer->older : &ud->newest) = peer->older;
	*(peer->older ? &peer->older->newer : &ud->oldest) = peer->newer;
}

static void rdma_ud_link_age(struct rdma_peer *peer)
{
	struct rdma_ud *ud = peer->ud;

	peer->newer = NULL;
	peer->older = ud->newest;
	*(ud->newest ? &ud->newest->newer : &ud->oldest) = peer;
	ud->newest = peer;
}

static void rdma_ud_remember(struct rdma_peer *peer)
{
	struct rdma_peer **bucket = rdma_ud_bucket(peer->ud, &peer->address, peer->number);

	peer->bucket_next = *bucket;
	*bucket = peer;
	rdma_ud_link_age(peer);
	peer->ud->peer_count++;
	peer->known = true;
}

static void rdma_ud_forget(struct rdma_peer *peer)
{
	struct rdma_peer **at = rdma_ud_bucket(peer->ud, &peer->address, peer->number);

	if (!peer->known)
		return;
	while (*at != peer)
		at = &(*at)->bucket_next;
	*at = peer->bucket_next;
	rdma_ud_unlink_age(peer);
	peer->ud->peer_count--;
	peer->known = false;
}

static struct rdma_peer *rdma_ud_find(struct rdma_ud *ud, const struct sockaddr_storage *address,
				      uint32_t number)
{
	struct rdma_peer *peer = *rdma_ud_bucket(ud, address, number);

	while (peer &&
	       (peer->number != number || memcmp(&peer->address, address, sizeof(*address)) != 0))
		peer = peer->bucket_next;
	return peer;
}

/* ---- Life ---- */

static void rdma_ud_free_peer(struct rdma_peer *peer)
{
	if (peer->ah)
		ibv_destroy_ah(peer->ah);
	peer->ud->users--;
	rdma_device_leave(peer->ud->device);
	free(peer);
}

static struct rdma_peer *rdma_ud_new(struct rdma_ud *ud, const struct sockaddr_storage *address,
				     struct ibv_wc *wc, struct ibv_grh *grh)
{
	struct worker *w = ud->device->worker;
	struct rdma_peer *peer;
	void *ticket = NULL;

	if (w->draining || w->stop || conn_admit(w, -1, address, &ticket) < 0)
		return NULL;
	if (ud->peer_count >= ud->peer_max)
		conn_close(ud->oldest->conn, CONN_END_IDLE);
	peer = calloc(1, sizeof(*peer));
	if (!peer) {
		w->owner->release(w, ticket);
		stat_add(w->stats.closed_error, 1);
		return NULL;
	}
	peer->ud = ud;
	peer->number = wc->src_qp;
	peer->address = *address;
	peer->ah = ibv_create_ah_from_wc(ud->device->pd, wc, grh, (uint8_t)ud->port);
	rdma_device_use(ud->device);
	ud->users++;
	if (conn_start(w, -1, peer, ticket) < 0) {
		rdma_ud_free_peer(peer);
		return NULL;
	}
	return peer->known ? peer : NULL;
}

int rdma_ud_open(struct conn *c)
{
	struct rdma_peer *peer = c->engine_state;

	peer->conn = c;
	if (!peer->ah)
		return -EIO;
	rdma_ud_remember(peer);
	return 0;
}

void rdma_ud_close(struct conn *c)
{
	struct rdma_peer *peer = c->engine_state;

	rdma_ud_forget(peer);
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

/* Nothing makes a client wait: rdma_ud_deliver() drops. */
void rdma_ud_recv(struct conn *c, bool on)
{
	(void)c, (void)on;
}

/* The number of the client's queue pair stands for a port. */
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

/* ---- What arrives ---- */

void rdma_ud_deliver(struct rdma_ud *ud, struct chunk *k, const struct ibv_wc *wc)
{
	struct worker *w = ud->device->worker;
	struct sockaddr_storage from = { .ss_family = AF_INET6 };
	struct ibv_wc copy = *wc;
	struct rdma_peer *peer = NULL;

	/* Within an InfiniBand subnet the header may be missing. */
	if (wc->byte_len >= GRH_BYTES &&
	    (!(wc->wc_flags & IBV_WC_GRH) || grh_source(k->base, &from) == 0)) {
		peer = rdma_ud_find(ud, &from, wc->src_qp);
		if (!peer)
			peer = rdma_ud_new(ud, &from, &copy, (struct ibv_grh *)(void *)k->base);
	}
	if (!peer || (peer->conn->flags & CONN_RECV_OFF)) {
		stat_add(w->stats.datagrams_dropped, 1);
		return;
	}
	if (peer != ud->newest) {
		rdma_ud_unlink_age(peer);
		rdma_ud_link_age(peer);
	}
	if (wc->byte_len > GRH_BYTES)
		conn_input(peer->conn, k, k->base + GRH_BYTES, wc->byte_len - GRH_BYTES);
}
