/* Engine `rdma`, level 4: the connection manager.  It listens, hears who wants to connect, hands
 * that over to a worker of the team, and tells of what happens to connections. */
#pragma once
#include <netinet/in.h>

#include "greeting.h"
#include "mailbox.h"
#include "rdma_device.h"

/* A client's request to connect.  Its owner answers it: with rdma_accept() and rdma_request_free(),
 * or with rdma_request_refuse(). */
struct rdma_request {
	struct call call;
	struct worker *worker; /* that has it */
	struct rdma_channel
		*channel; /* NULL: the worker's own; else where its events still arrive */
	struct rdma_cm_id *id;
	struct sockaddr_storage peer;
	uint8_t responder_resources, initiator_depth; /* as the client asked */
	uint8_t said_bytes;
	uint8_t said[GREETING_SAID_MAX]; /* and said */
};

/* The identifier is the caller's. */
void rdma_request_free(struct rdma_request *request);
/* Says why, and is over. */
void rdma_request_refuse(struct rdma_request *request, const char *why);
/* The client of this identifier sees why, as private data: in words, or as its service says it. */
void rdma_cm_reject(const struct worker *w, struct rdma_cm_id *id, const char *why);
/* Refuses a request that the service does not want; greeting has the reply. */
void rdma_request_refuse_greeting(struct rdma_request *request, const struct greeting *greeting);
/* The error rc of conn_admit() in words, for the log. */
const char *rdma_cm_refusal(const struct worker *w, int rc);

/* Watches for events.  0 or -errno with the reason; rdma_cm_close() follows in every case. */
int rdma_cm_open(struct worker *w, struct reason *reason);
void rdma_cm_close(struct worker *w);
/* Binds w->endpoints; devices that are there are asked whether they serve.  0 or -errno with the
 * reason. */
int rdma_cm_bind(struct worker *w, struct reason *reason);
/* engine->accept(). */
void rdma_cm_accept(struct worker *w, bool on);
