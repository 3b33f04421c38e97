/* Engine `rdma`, datagrams: address handles are made by a thread of their own, a worker's helper.
 *
 * The kernel makes a handle for RoCE once it knows the Ethernet address of the client, and asks for
 * it by ARP: it waits for up to a second if nobody answers, as for a forged source.  So datagrams
 * of an unknown client are held while its handle is made, a bounded number of them, and those of
 * others are dropped.  Clients that have asked the connection manager for the number of the queue
 * pair come first, as the kernel has reached their address to answer; an address that had no handle
 * gets no second attempt for RDMA_UD_FAILED_NS. */
#pragma once
#include "ud.h"

enum {
	RDMA_UD_HELD = 256,     /* datagrams of clients that have asked, or an eighth of the pool */
	RDMA_UD_HELD_EACH = 64, /* of one of them */
	/* Of other clients, or an eighth of the pool; one of each, unless it was sent to a group.
	 */
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
