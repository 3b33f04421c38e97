/* Engine `rdma` with `qp-type = ud`: datagrams. */
#pragma once
#include <netinet/in.h>

#include "peers.h"
#include "rdma_engine.h"
#include "rdma_lent.h"

enum {
	RDMA_UD_RECVS = 256, /* posted for each port of a device, if the pool is roomy */
	RDMA_UD_SENDS = 128,
	RDMA_UD_PEERS = 1024, /* clients, and address handles, of a port; nor more than buffers */
};

struct rdma_peer;

/* One call that posted: who waits for its completion. */
struct rdma_batch {
	struct rdma_peer *peer; /* NULL: nobody, all of it was inline */
	uint32_t requests;
	uint32_t bytes; /* of the connection's `sending` */
	bool signalled;
};

enum rdma_ud_state {
	RDMA_UD_WORKS,
	RDMA_UD_BROKEN, /* a request failed: nothing is posted until it is mended */
	RDMA_UD_DEAD,   /* it has no queue pair any more; freed when its clients are */
};

/* A worker's queue pair on one port of a device: all its clients send there. */
struct rdma_ud {
	struct rdma_ud *next;     /* of the device */
	enum rdma_ud_state state; /* rdma_ud_become() changes it */
	struct rdma_device *device;
	const struct engine_device *name;
	unsigned port, mtu;
	struct ibv_qp *qp; /* NULL: DEAD */
	uint32_t number;   /* of the queue pair */
	unsigned entries;  /* of the completion queue that it was promised */
	unsigned users;    /* clients that name it */
	uint32_t inline_max;
	struct rdma_lent lent;
	struct rdma_batch batches[RDMA_UD_SENDS]; /* a ring: sends complete in order */
	unsigned batch_first, batch_count;
	unsigned sends, unsignalled; /* in the send queue; after its last signalled one */
	struct peers peers;
	struct rdma_peer *waiting; /* for room in the send queue */
};

/* A client, as long as it has its place in the table: a connection, to the core. */
struct rdma_peer {
	struct peer peer;
	struct rdma_ud *ud;
	struct ibv_ah *ah;
	uint32_t number; /* of its queue pair */
	struct sockaddr_storage address;
	struct rdma_peer *waiting_next;
	bool waiting; /* on that list */
};

/* A datagram: to whom it belongs, who may be new; or it is dropped. */
void rdma_ud_deliver(struct rdma_ud *ud, struct chunk *k, const struct ibv_wc *wc);

/* For the table. */
void rdma_ud_evict(struct peer *peer);

/* rdma_ud_peer.c: its side of struct engine. */
int rdma_ud_open(struct conn *c);
void rdma_ud_recv(struct conn *c, bool on);
void rdma_ud_close(struct conn *c);
void rdma_ud_release(struct conn *c);
void rdma_ud_peer(const struct conn *c, struct sockaddr_storage *ret_peer);
const struct engine_device *rdma_ud_device(const struct conn *c);
