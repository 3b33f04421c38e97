/* Engine `rdma`: the connection manager.  It listens, receives clients' requests to
 * connect, hands each to a worker of the team, and reports events of connections. */
#pragma once
#include <netinet/in.h>

#include "connect_data.h"
#include "device.h"
#include "mailbox.h"

/* A client's request to connect.  Its owner answers it by rdma_accept() and rdma_request_free(), or
 * by rdma_request_refuse(), which frees it. */
struct rdma_request {
	struct call call;
	struct worker *worker; /* the worker that it was handed to */
	struct rdma_channel
		*channel; /* where its events still arrive; NULL: at the worker's own channel */
	struct rdma_cm_id *id;
	struct sockaddr_storage peer;
	uint8_t responder_resources, initiator_depth; /* as the client asked */
	uint8_t data_bytes;
	uint8_t data[CONNECT_DATA_MAX]; /* the client's private data */
};

/* Frees the request, but not request->id, which the caller then owns. */
void rdma_request_free(struct rdma_request *request);
/* Refuses the client with the reason why, and frees the request. */
void rdma_request_refuse(struct rdma_request *request, const char *why);
/* Refuses the client of this identifier.  The private data of the refusal is `why` as text or, for
 * a service with connect(), the reply of that. */
void rdma_cm_reject(const struct worker *w, struct rdma_cm_id *id, const char *why);
/* Refuses a request that the service's connect() has refused, with
 * connect_data->reply, and frees it. */
void rdma_request_refuse_connect(struct rdma_request *request,
				 const struct connect_data *connect_data);

/* Makes an identifier with that context, for datagrams or for connections, whose events come to the
 * worker.  0 or -errno. */
int rdma_cm_identify(const struct worker *w, void *context, bool datagrams,
		     struct rdma_cm_id **ret_id);
/* The worker of w's team that takes a connection of this client. */
struct worker *rdma_cm_choose(const struct worker *w, const struct sockaddr_storage *peer);
/* Is w->accept.endpoints[index] an address of an iWARP device, which takes its ports from TCP? */
bool rdma_cm_is_iwarp(const struct worker *w, unsigned index);

/* Starts watching for events.  0, or -errno with the reason; the caller calls
 * rdma_cm_close() in both cases. */
int rdma_cm_open(struct worker *w, struct reason *reason);
void rdma_cm_close(struct worker *w);
/* Binds w->accept.endpoints, and opens the devices that have them.  0 or -errno with the reason. */
int rdma_cm_bind(struct worker *w, struct reason *reason);
/* The device was unplugged, as identifier id (may be NULL) was told: ends its connections, and
 * binds the addresses on it again when it returns. */
void rdma_cm_removed(struct worker *w, const struct rdma_cm_id *id,
		     const struct ibv_context *verbs);
/* engine->accept(). */
void rdma_cm_accept(struct worker *w, bool on);
