/* Engine `rdma`: code shared by its two struct engines, for connections and for datagrams. */
#pragma once
#include "cm.h"
#include "engine.h"
#include "queue.h"

/* Common parts of both engines' init() (0, or -errno with the reason and
 * everything undone) and fini(). */
int rdma_init(struct worker *w, const struct rdma_mode *mode, struct reason *reason);
void rdma_fini(struct worker *w);

/* Functions of struct engine that do not depend on connections. */
void rdma_wait(struct worker *w, bool block);
void rdma_examine(engine_found *found, void *context);

#define RDMA_ENGINE                                                                                \
	.name = "rdma", .transport = &transport_rdma, .messages = true, .sample_turns = 8,         \
	.features = FEATURE_BIT(busy_poll) | FEATURE_BIT(selective_signalling),                    \
	.examine = rdma_examine, .watch = rdma_watch, .wait = rdma_wait

/* connection_request.c.  rdma_conn_requested() is a struct rdma_mode's. */
void rdma_conn_requested(struct worker *w, struct rdma_request *request);
/* A connection in RDMA_NEW, without an identifier.  NULL: no memory. */
struct rdma_conn *rdma_conn_new(void);
/* Has r use the device, at the port of its identifier. */
void rdma_conn_use(struct rdma_conn *r, struct rdma_device *d,
		   const struct connect_data *connect_data);
/* May a client with this address have a connection?  0 or more as conn_admit(); -errno: no, and the
 * refusal was counted.  rdma_conn_refusal(): the error as text. */
int rdma_conn_admit(struct worker *w, const struct rdma_device *d,
		    const struct sockaddr_storage *peer, const struct connect_data *connect_data,
		    void **ret_ticket);
const char *rdma_conn_refusal(const struct worker *w, int rc);
/* Answers the request, when the queue pair is ready: 0 or -errno. */
int rdma_conn_accept(struct rdma_conn *r);
/* Frees r with its resources, once the queue pair and the identifier are destroyed. */
void rdma_conn_free(struct rdma_conn *r);
