/* Engine `rdma`: queue pairs that clients agree on over sockets: see core/pair.h.
 *
 * The listener's first worker accepts the sockets and distributes them as it does requests to
 * connect.  A socket is a connection whose descriptor is in the worker's epoll set; a queue pair is
 * one like those of the connection manager, but for its beginning and its end. */
#pragma once
#include "pair.h"
#include "queue.h"

struct rdma_exchange;

/* State of a queue pair that was agreed on over a socket; owned by r. */
struct rdma_pair {
	struct rdma_pair *next;
	struct rdma_exchange *exchange; /* NULL: it has ended */
	struct rdma_conn *r;
	struct pair agreed;        /* without .conn */
	struct ibv_gid_entry from; /* our GID */
	struct ibv_ah *way;        /* of a pair with datagrams; NULL: not made */
};

/* A socket's engine_state. */
struct rdma_exchange {
	struct conn *conn;
	struct rdma_pair *pairs;
	unsigned count; /* pairs ever made */
	/* The interface of the RoCE port that has the socket's local address; 0: none has it, or
	 * rdma_pair_mtu() has not looked yet. */
	unsigned interface;
};

/* Adds a socket at each of w->accept.endpoints to its acceptors.  An address where that is not
 * possible is logged; the connection manager serves it all the same. */
void rdma_exchanges_open(struct worker *w);
/* engine->watch_listener(). */
void rdma_exchange_watch_listener(struct worker *w, struct acceptor *a, bool on);

/* Functions of struct engine for a connection that is a socket. */
int rdma_exchange_open(struct conn *c);
void rdma_exchange_recv(struct conn *c);
void rdma_exchange_flush(struct conn *c);
void rdma_exchange_close(struct conn *c);
void rdma_exchange_release(struct conn *c);

/* Functions of struct engine_remote. */
int rdma_pair_mtu(struct conn *c);
int rdma_pair(struct conn *c, struct pair *pair);
bool rdma_is_pair(const struct conn *c);
/* The route to the client is known, or (type) there is none. */
void rdma_pair_event(struct rdma_conn *r, enum rdma_cm_event_type type);
/* In place of rdma_accept(), which it begins: 0 or -errno. */
int rdma_pair_accept(struct rdma_conn *r);
/* The queue pair of the connection was destroyed: the socket ends, too. */
void rdma_pair_gone(struct rdma_pair *p);
void rdma_pair_free(struct rdma_pair *p);
