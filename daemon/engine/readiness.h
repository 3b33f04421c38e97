/* Shared by the readiness engines (epoll, io_uring-poll), once the kernel says that a socket is
 * ready: non-blocking accept, recv and send.  Worker's thread only. */
#pragma once
#include <stdbool.h>

#include "conn.h"

enum {
	READINESS_FLAGS = CONN_ENGINE << 7, /* of conn->flags: this bit and all above */
	READINESS_READS = 4,                /* receives per event, as other connections wait */
	READINESS_CHUNKS = 64,              /* chunks the widest receive may fill */
	READINESS_IOV = 32,                 /* views one send may carry */
	READINESS_ACCEPTS = 16,             /* connections per event */
};

enum readiness {
	READINESS_DRAINED, /* nothing was left */
	READINESS_MORE,    /* there may be more */
	READINESS_ENDED,   /* FIN, failure, or no chunk: stop receiving for now */
};

/* Receives up to READINESS_READS times.  to_eagain: a short receive does not prove that the socket
 * is empty (the event said that the peer has closed). */
enum readiness readiness_recv(struct conn *c, bool to_eagain);

/* Sends c->tx.  true: all of it; false: the peer does not take more now, or the send failed. */
bool readiness_send(struct conn *c);

/* Accepts up to READINESS_ACCEPTS connections; true: there may be more. */
bool readiness_accept(struct acceptor *a);
