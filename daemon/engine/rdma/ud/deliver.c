/* Engine `rdma`, datagrams: from a completed receive to the client that sent it. */
#include <netinet/in.h>
#include <string.h>

#include "buf.h"
#include "grh.h"
#include "handle.h"
#include "parse.h"
#include "queue.h"
#include "ud.h"
#include "worker.h"

static struct peer_key rdma_ud_key(const struct sockaddr_storage *address, uint32_t number)
{
	struct in6_addr ip = sockaddr_mapped(address);
	struct peer_key key = { .words = { [2] = number } };

	memcpy(key.words, &ip, sizeof(ip));
	return key;
}

/* Delivers the datagram in k to its client, has an address handle made if the client is new, or
 * drops it. */
static void rdma_ud_deliver(struct rdma_ud *ud, struct chunk *k, const struct ibv_wc *wc)
{
	struct rdma_ud_client from = { .address.ss_family = AF_INET6, .number = wc->src_qp };
	struct peer *known;
	bool held = false;

	/* Within an InfiniBand subnet the header may be missing. */
	if (wc->byte_len >= GRH_BYTES &&
	    (!(wc->wc_flags & IBV_WC_GRH) || grh_source(k->base, &from.address) == 0)) {
		from.key = rdma_ud_key(&from.address, wc->src_qp);
		known = peers_find(&ud->peers, &from.key);
		if (known) {
			rdma_ud_input(container_of(known, struct rdma_peer, peer), k, wc->byte_len);
			return;
		}
		held = rdma_ud_hold(ud, &from, k, wc);
	}
	if (!held)
		stat_add(ud->device->worker->stats.datagrams_dropped, 1);
}

void rdma_ud_received(struct rdma_device *d, void *of, const struct ibv_wc *wc)
{
	struct rdma_ud *ud = d->uds;
	struct worker *w = d->worker;
	struct chunk *k = of;

	while (ud && (ud->state == RDMA_UD_DEAD || ud->number != wc->qp_num))
		ud = ud->next;
	if (!ud || !ud->lent.is[k->id])
		return; /* it was taken back when the queue pair was reset */
	if (wc->status == IBV_WC_SUCCESS) {
		stat_add(w->stats.wc_recv, 1);
		rdma_ud_deliver(ud, k, wc);
	} else {
		rdma_queue_count_error(&w->stats, wc->status);
		rdma_ud_failed(ud);
	}
	rdma_lent_back(&ud->lent, &w->pool, k);
}
