/* Engine `rdma` with `qp-type = ud`: datagrams. */
#pragma once
#include <netinet/in.h>

#include "memory.h"
#include "peers.h"
#include "rdma_engine.h"

enum {
	RDMA_UD_RECVS = 256, /* receives posted for each port of a device, if the pool has room */
	RDMA_UD_SENDS = 128,
	/* Maximum of clients, and of address handles, of a port; also limited
	 * by the number of buffers. */
	RDMA_UD_PEERS = 1024,
};

struct rdma_peer;

/* The requests that one call posted, and the client that needs their completion. */
struct rdma_batch {
	struct rdma_peer *peer; /* NULL: none, as all messages were inline */
	/* Their address handle, if its client has gone: destroyed when they have completed, as a
	 * device may look it up when it sends. */
	struct ibv_ah *ah;
	uint32_t requests;
	uint32_t bytes; /* bytes of the connection's `sending` */
	bool signalled;
};

enum rdma_ud_state {
	RDMA_UD_WORKS,
	RDMA_UD_BROKEN, /* a request failed: nothing is posted until it is reset */
	RDMA_UD_DEAD,   /* its queue pair was destroyed; freed with its last client */
};

/* A worker's queue pair on one port of a device, to which all clients there send. */
struct rdma_ud {
	struct rdma_ud *next;     /* next of the device */
	enum rdma_ud_state state; /* changed by rdma_ud_become() and rdma_ud_failed() */
	struct rdma_device *device;
	const struct engine_device *name;
	unsigned port, mtu;
	struct ibv_qp *qp; /* NULL: DEAD */
	uint32_t number;   /* number of the queue pair (QPN) */
	unsigned entries;  /* entries of the completion queue reserved for it */
	unsigned users;    /* clients that refer to it */
	uint32_t inline_max;
	struct rdma_receives receives;
	struct rdma_batch batches[RDMA_UD_SENDS]; /* a ring: sends complete in order */
	unsigned batch_first, batch_count;
	uint64_t batches_done; /* since the start */
	/* Requests in the send queue; those after the last signalled one. */
	unsigned sends, unsignalled;
	struct peers peers;
	struct rdma_ud_group *groups;
	uint8_t group_gid; /* index of the GID from which datagrams to groups are answered */
	struct rdma_peer *waiting; /* list of clients that wait for room in the send queue */
};

/* The sender of a datagram. */
struct rdma_ud_client {
	struct peer_key key;
	struct sockaddr_storage address;
	uint32_t number; /* of its queue pair */
};

/* A client, which is a connection to the core; exists while it has a
 * place in the table of peers. */
struct rdma_peer {
	struct peer peer;
	struct rdma_ud *ud;
	struct ibv_ah *ah;
	uint64_t batches; /* rdma_ud.batches_done when all that it has posted will have completed */
	uint32_t number;  /* of its queue pair */
	struct sockaddr_storage address;
	struct rdma_peer *waiting_next;
	bool waiting; /* on the list rdma_ud.waiting */
};

/* A request has failed: nothing more is posted until the worker's next
 * turn resets the queue pair. */
static inline void rdma_ud_failed(struct rdma_ud *ud)
{
	if (ud->state == RDMA_UD_WORKS)
		ud->state = RDMA_UD_BROKEN;
}

/* peer.c */
void rdma_ud_flush(struct conn *c); /* engine->flush */
void rdma_ud_sent(struct rdma_device *d, void *of, const struct ibv_wc *wc);
/* No request in flight will complete any more. */
void rdma_ud_forget_sends(struct rdma_ud *ud);
/* Destroys the handles that wait for that; the queue pair was destroyed before. */
void rdma_ud_destroy_handles(struct rdma_ud *ud);

/* The client begins; ah becomes its own, or is destroyed.  NULL: it is refused. */
struct rdma_peer *rdma_ud_begin(struct rdma_ud *ud, const struct rdma_ud_client *client,
				struct ibv_ah *ah);
/* A datagram of the client, `bytes` with its header, is in k. */
void rdma_ud_input(struct rdma_peer *peer, struct chunk *k, uint32_t bytes);
void rdma_ud_evict(struct peer *peer); /* peers.evict() */

/* Functions of struct engine. */
int rdma_ud_open(struct conn *c);
void rdma_ud_recv(struct conn *c, bool on);
void rdma_ud_close(struct conn *c);
void rdma_ud_release(struct conn *c);
void rdma_ud_peer(const struct conn *c, struct sockaddr_storage *ret_peer);
const struct engine_device *rdma_ud_device(const struct conn *c);

/* ---- Address handles: handle.c ----
 *
 * They are made by a thread of their own, a worker's helper.  The kernel makes a handle for RoCE
 * once it knows the Ethernet address of the client, and asks for it by ARP: it waits for up to a
 * second if no host answers, as for a forged source.  So datagrams of an unknown client are held
 * while its handle is made, a bounded number of them, and those of others are dropped.  Clients
 * that have asked the connection manager for the number of the queue pair come first, as the kernel
 * has reached their address to answer; an address that had no handle gets no second attempt for
 * RDMA_UD_FAILED_NS. */

enum {
	RDMA_UD_HELD = 256,     /* datagrams of clients that have asked, or an eighth of the pool */
	RDMA_UD_HELD_EACH = 64, /* of one of them */
	/* Of other clients, or an eighth of the pool; one of each,
	 * unless it was sent to a group. */
	RDMA_UD_HELD_OTHERS = 32,
	RDMA_UD_KNOWN = 256, /* addresses that a memory has room for */
	RDMA_UD_FAILED_NS = NS_PER_S,
};

/* 0, or -errno with the reason. */
int rdma_ud_handles_open(struct worker *w, struct reason *reason);
/* Waits for the handle that is being made.  Does nothing if it was not opened. */
void rdma_ud_handles_close(struct worker *w);

/* A client at this address has got the number of a queue pair. */
void rdma_ud_handles_asked(struct worker *w, const struct sockaddr_storage *address);

/* A datagram of an unknown client is in k: holds it, and has a handle made; then rdma_ud_begin() is
 * called.  False: it is to be dropped. */
bool rdma_ud_hold(struct rdma_ud *ud, const struct rdma_ud_client *client, struct chunk *k,
		  const struct ibv_wc *wc);
