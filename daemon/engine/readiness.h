/* Non-blocking accept, receive and send, for the engines that wait for readiness (epoll,
 * io_uring-poll).  Worker's thread only. */
#pragma once
#include <stdbool.h>

#include "conn.h"

enum {
	/* Bits of conn->flags for edge-triggered events, which report new input but not input that
	 * was left. */
	READINESS_READABLE = CONN_ENGINE << 4, /* there may be input */
	READINESS_GONE = CONN_ENGINE << 5,  /* the peer has closed: receive until EAGAIN or FIN */
	READINESS_AGAIN = CONN_ENGINE << 6, /* on the engine's list for its next turn */
	READINESS_FLAGS = CONN_ENGINE << 7, /* of conn->flags: this bit and all above */
	READINESS_READS = 4,                /* receives per event, as other connections wait */
	READINESS_CHUNKS = 64,              /* chunks the widest receive may fill */
	READINESS_IOV = 32,                 /* views one send may carry */
	READINESS_ACCEPTS = 16,             /* connections per event */
};

enum readiness {
	READINESS_DRAINED, /* nothing was left, or nothing may be received */
	READINESS_MORE,    /* there may be more */
	READINESS_ENDED,   /* FIN, failure, or no chunk: stop receiving for now */
};

/* Receives up to READINESS_READS times.  to_eagain: a short receive does not prove that the socket
 * is empty (the event said that the peer has closed). */
enum readiness readiness_recv(struct conn *c, bool to_eagain);

/* readiness_recv() for edge-triggered events.  Does nothing if c must not receive now;
 * READINESS_READABLE then stays set. */
static inline enum readiness readiness_edge(struct conn *c)
{
	enum readiness result;

	if (c->flags & (CONN_CLOSING | CONN_EOF | CONN_RECV_OFF | CONN_NO_MEMORY | READINESS_AGAIN |
			CONN_RAW)) {
		if (c->flags & CONN_RAW)
			conn_ready(c);
		return READINESS_DRAINED;
	}
	result = readiness_recv(c, c->flags & READINESS_GONE);
	if (result == READINESS_DRAINED)
		c->flags &= ~(uint32_t)READINESS_READABLE;
	return result;
}

/* Sends c->tx.  true: all of it; false: the peer does not take more now, or the send failed. */
bool readiness_send(struct conn *c);

/* Accepts up to READINESS_ACCEPTS connections; true: there may be more. */
bool readiness_accept(struct acceptor *a);
