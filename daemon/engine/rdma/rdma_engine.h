/* Engine `rdma`, level 5: code shared by its two struct engines, for connections and for datagrams.
 */
#pragma once
#include "engine.h"
#include "rdma_cm.h"
#include "rdma_queue.h"

/* Common parts of both engines' init() (0, or -errno with the reason and everything undone) and
 * fini(). */
int rdma_init(struct worker *w, const struct rdma_mode *mode, struct reason *reason);
void rdma_fini(struct worker *w);

/* Functions of struct engine that do not depend on connections. */
void rdma_wait(struct worker *w, bool block);
void rdma_no_sockets(struct worker *w, struct acceptor *a, bool on);
void rdma_examine(engine_found *found, void *context);

#define RDMA_ENGINE                                                                                \
	.name = "rdma", .transport = &transport_rdma, .messages = true, .sample_turns = 8,         \
	.features = FEATURE_BIT(busy_poll) | FEATURE_BIT(selective_signalling),                    \
	.examine = rdma_examine, .listen = rdma_no_sockets, .accept = rdma_cm_accept,              \
	.watch = rdma_watch, .wait = rdma_wait

/* rdma_conn_request.c.  rdma_conn_requested() is a struct rdma_mode's; rdma_conn_free() releases
 * what it has made, once the queue pair and the id are destroyed. */
void rdma_conn_requested(struct worker *w, struct rdma_request *request);
void rdma_conn_free(struct rdma_conn *r);

/* rdma_hotplug.c */
void rdma_hotplug_open(struct rdma *e);
void rdma_hotplug_close(struct rdma *e);
