/* Engine `rdma` with `qp-type = ud`: datagrams. */
#pragma once
#include "rdma.h"

enum {
	RDMA_UD_RECVS = 256, /* posted for each port of a device, if the pool is roomy */
	RDMA_UD_SENDS = 128,
	RDMA_UD_PEERS = 1024, /* clients, and address handles, of a port; nor more than buffers */
	RDMA_UD_BUCKETS = 1024,
};

struct rdma_peer;

/* One call that posted: who waits for its completion. */
struct rdma_batch {
	struct rdma_peer *peer; /* NULL: nobody, all of it was inline */
	uint32_t requests;
	uint32_t bytes; /* of the connection's `sending` */
	bool signalled;
};

/* A worker's queue pair on one port of a device: all its clients send there. */
struct rdma_ud {
	struct rdma_ud *next; /* of the device */
	struct rdma_device *device;
	const struct engine_device *name;
	unsigned port, mtu;
	struct ibv_qp *qp; /* NULL: the device is gone */
	uint32_t inline_max;
	struct rdma_lent lent;
	struct rdma_batch batches[RDMA_UD_SENDS]; /* a ring: sends complete in order */
	unsigned batch_first, batch_count;
	unsigned sends, unsignalled; /* in the send queue; after its last signalled one */
	struct rdma_peer *peers[RDMA_UD_BUCKETS];
	struct rdma_peer *newest, *oldest;
	unsigned peer_count, peer_max;
	struct rdma_peer *waiting; /* for room in the send queue */
	bool broken;               /* a request failed: nothing moves until it is mended */
};

/* A client, as long as it has its place in the cache: a connection, to the core. */
struct rdma_peer {
	struct conn *conn;
	struct rdma_ud *ud;
	struct ibv_ah *ah;
	uint32_t number; /* of its queue pair */
	struct sockaddr_storage address;
	struct rdma_peer *bucket_next, *newer, *older, *waiting_next;
	bool known, waiting; /* on these lists */
};

/* The queue pair of this port, made if there is none.  NULL: with the reason. */
struct rdma_ud *rdma_ud_get(struct rdma_device *d, unsigned port, struct reason *reason);
void rdma_ud_free_all(struct rdma_device *d);
/* Who asks for the address of the queue pair gets it, or hears why not; takes r over. */
void rdma_ud_answer(struct worker *w, struct rdma_conn *r);
void rdma_ud_received(struct rdma_device *d, struct chunk *k, const struct ibv_wc *wc);
void rdma_ud_sent(struct rdma_ud *ud, const struct ibv_wc *wc);
/* A datagram: to whom it belongs, who may be new; or it is dropped. */
void rdma_ud_deliver(struct rdma_ud *ud, struct chunk *k, const struct ibv_wc *wc);
/* Before each wait: posts receives, mends what failed, lets go of a device that is gone. */
void rdma_ud_tend(struct rdma_device *d);

/* Its side of struct engine. */
int rdma_ud_open(struct conn *c);
void rdma_ud_recv(struct conn *c, bool on);
void rdma_ud_flush(struct conn *c);
void rdma_ud_close(struct conn *c);
void rdma_ud_release(struct conn *c);
void rdma_ud_peer(const struct conn *c, struct sockaddr_storage *ret_peer);
const struct engine_device *rdma_ud_device(const struct conn *c);
