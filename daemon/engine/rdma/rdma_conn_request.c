/* Engine `rdma`: a request to connect becomes a connection, or is refused. */
#include <errno.h>
#include <stdlib.h>

#include "conn.h"
#include "rdma_cm.h"
#include "rdma_engine.h"
#include "rdma_queue.h"
#include "rdma_remote.h"

/* Takes request->id over and frees the request. */
static struct rdma_conn *rdma_conn_new(struct rdma_device *d, struct rdma_request *request,
				       const struct connect_data *connect_data)
{
	struct rdma_conn *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->id = request->id;
	r->id->context = r;
	r->device = d;
	r->port = rdma_device_port(d, r->id->port_num);
	r->peer = request->peer;
	r->responder_resources = request->responder_resources;
	r->initiator_depth = request->initiator_depth;
	r->connect_data = *connect_data;
	rdma_remote_open(r);
	rdma_device_use(d);
	return r;
}

void rdma_conn_free(struct rdma_conn *r)
{
	rdma_device_leave(r->device);
	free(r);
}

/* 0 or -errno.  -EAGAIN: not enough chunks for its receives; -ENOSPC: the completion queue is full.
 */
static int rdma_conn_admit(struct worker *w, const struct rdma_device *d,
			   const struct rdma_request *request,
			   const struct connect_data *connect_data, void **ret_ticket)
{
	const struct pool *p = &w->pool;

	int rc = 0;

	if (!d->shared && p->free_count < p->keep + rdma_queue_chunks(p, connect_data))
		rc = -EAGAIN;
	else if (!rdma_queue_fits(d, connect_data))
		rc = -ENOSPC;
	if (rc < 0) {
		stat_add(w->stats.refused_limit, 1);
		return rc;
	}
	if (w->drain.on || w->turn.stop)
		return -EUSERS;
	return conn_admit(w, -1, &request->peer, ret_ticket);
}

static const char *rdma_conn_refusal(const struct worker *w, int rc)
{
	switch (rc) {
	case -EAGAIN:
		return "no buffers are left";
	case -ENOSPC:
		return "the completion queue is full";
	default:
		return rdma_cm_refusal(w, rc);
	}
}

void rdma_conn_requested(struct worker *w, struct rdma_request *request)
{
	struct connect_data connect_data = { .said = request->said,
					     .said_bytes = request->said_bytes };
	struct reason reason = { "" };
	struct rdma_device *d = rdma_device_get(w, request->id->verbs, &reason);
	struct rdma_conn *r;
	void *ticket = NULL;
	int rc;

	if (!d) {
		stat_add(w->stats.refused_limit, 1);
		rdma_request_refuse(request, reason.text);
		return;
	}
	connect_data.reads = d->reads ? request->initiator_depth : 0;
	if (w->service->connect && w->service->connect(w, &connect_data) < 0) {
		stat_add(w->stats.closed_protocol, 1);
		rdma_request_refuse_greeting(request, &connect_data);
		return;
	}
	rc = rdma_conn_admit(w, d, request, &connect_data, &ticket);
	if (rc < 0) {
		rdma_request_refuse(request, rdma_conn_refusal(w, rc));
		return;
	}
	r = rdma_conn_new(d, request, &connect_data);
	if (!r) {
		w->owner->release(w, ticket);
		stat_add(w->stats.closed_error, 1);
	} else if (conn_start(w, -1, r, ticket) == 0) {
		rdma_request_free(request);
		return;
	} else {
		rdma_conn_free(r);
	}
	rdma_request_refuse(request, "no memory");
}
