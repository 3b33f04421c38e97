/* Engine `rdma`: what its files share. */
#pragma once
#include "cm.h"
#include "engine.h"
#include "queue.h"

/* engine->examine(). */
void rdma_examine(engine_found *found, void *context);

/* ---- Connections: connection.c ---- */

extern const struct rdma_calls rdma_conn_calls;
extern const struct engine_clients rdma_conn_clients;

/* Functions of struct engine.  end() is its close(); also called if the service refused the
 * connection before open(). */
int rdma_conn_open(struct conn *c);
void rdma_conn_recv(struct conn *c, bool on);
void rdma_conn_flush(struct conn *c);
void rdma_conn_end(struct conn *c);
void rdma_conn_release(struct conn *c);

/* Before each wait, when no completion is being handled: frees connections that have ended. */
void rdma_conn_end_all(struct rdma *e);
/* Posts receives; before the worker sleeps, and after each poll before the received data is
 * handled. */
void rdma_conn_refill_all(struct rdma *e);

/* ---- Requests to connect: connection_request.c ---- */

/* rdma_calls.requested(). */
void rdma_conn_requested(struct worker *w, struct rdma_request *request);
/* A connection in RDMA_NEW, without an identifier.  NULL: no memory. */
struct rdma_conn *rdma_conn_new(void);
/* Has r use the device, at the port of its identifier. */
void rdma_conn_use(struct rdma_conn *r, struct rdma_device *d,
		   const struct connect_data *connect_data);
/* May a client with this address have a connection?  0 or more as conn_admit(); -errno: no, and the
 * refusal was counted.  rdma_conn_refusal(): the error as text. */
int rdma_conn_admit(struct worker *w, const struct rdma_device *d,
		    const struct sockaddr_storage *peer, const struct connect_data *connect_data);
const char *rdma_conn_refusal(const struct worker *w, int rc);
/* Answers the request, when the queue pair is ready: 0 or -errno. */
int rdma_conn_accept(struct rdma_conn *r);
/* Frees r with its resources, once the queue pair and the identifier are destroyed. */
void rdma_conn_free(struct rdma_conn *r);
