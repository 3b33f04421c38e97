/* Engine `rdma`: a request to connect becomes a connection, or is refused. */
#include <errno.h>
#include <stdlib.h>

#include "cm.h"
#include "conn.h"
#include "queue.h"
#include "rdma_engine.h"
#include "step.h"

enum {
	RDMA_RNR_RETRY = 7, /* of the client: without limit */
	RDMA_RETRY = 7,     /* of the client, for lost packets */
};

struct rdma_conn *rdma_conn_new(void)
{
	struct rdma_conn *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->type = IBV_QPT_RC;
	rdma_remote_open(r);
	return r;
}

void rdma_conn_use(struct rdma_conn *r, struct rdma_device *d,
		   const struct connect_data *connect_data)
{
	r->device = d;
	r->port = rdma_device_port(d, r->id->port_num);
	r->connect_data = *connect_data;
	d->users++;
}

/* Takes request->id over. */
static struct rdma_conn *rdma_conn_of(struct rdma_device *d, struct rdma_request *request,
				      const struct connect_data *connect_data)
{
	struct rdma_conn *r = rdma_conn_new();

	if (!r)
		return NULL;
	r->id = request->id;
	r->id->context = r;
	r->peer = request->peer;
	r->responder_resources = request->responder_resources;
	r->initiator_depth = request->initiator_depth;
	rdma_conn_use(r, d, connect_data);
	return r;
}

void rdma_conn_free(struct rdma_conn *r)
{
	if (r->device)
		r->device->users--;
	free(r);
}

/* -EAGAIN: not enough chunks for its receives; -ENOSPC: the completion queue is full. */
int rdma_conn_admit(struct worker *w, const struct rdma_device *d,
		    const struct sockaddr_storage *peer, const struct connect_data *connect_data)
{
	const struct pool *p = &w->pool;
	int rc = 0;

	if (p->free_count < p->keep + rdma_queue_chunks(p, connect_data))
		rc = -EAGAIN;
	else if (!rdma_queue_fits(d, connect_data))
		rc = -ENOSPC;
	if (rc < 0) {
		stat_add(w->stats.refused_limit, 1);
		return rc;
	}
	if (w->drain.on || w->turn.stop)
		return -EUSERS;
	return conn_admit(w, -1, peer);
}

const char *rdma_conn_refusal(const struct worker *w, int rc)
{
	switch (rc) {
	case -EAGAIN:
		return "no buffers are left";
	case -ENOSPC:
		return "the completion queue is full";
	case -EACCES:
		return "not allowed";
	default:
		return w->drain.on ? "draining" : "too many connections";
	}
}

void rdma_conn_requested(struct worker *w, struct rdma_request *request)
{
	struct connect_data connect_data = { .data = request->data,
					     .data_bytes = request->data_bytes };
	struct reason reason = { "" };
	struct rdma_device *d = rdma_device_get(w, request->id->verbs, &reason);
	struct rdma_conn *r;
	int rc;

	if (!d) {
		stat_add(w->stats.refused_limit, 1);
		rdma_request_refuse(request, reason.text);
		return;
	}
	connect_data.reads = d->reads ? request->initiator_depth : 0;
	if (w->service->connect && w->service->connect(w, &connect_data) < 0) {
		stat_add(w->stats.closed_protocol, 1);
		rdma_request_refuse_connect(request, &connect_data);
		return;
	}
	rc = rdma_conn_admit(w, d, &request->peer, &connect_data);
	if (rc < 0) {
		rdma_request_refuse(request, rdma_conn_refusal(w, rc));
		return;
	}
	r = rdma_conn_of(d, request, &connect_data);
	if (!r) {
		w->owner->release(w);
		stat_add(w->stats.closed_error, 1);
	} else if (conn_start(w, -1, r) == 0) {
		rdma_request_free(request);
		return;
	} else {
		rdma_conn_free(r);
	}
	rdma_request_refuse(request, "no memory");
}

static struct rdma_conn_param rdma_conn_param(const struct rdma_conn *r)
{
	const struct ibv_device_attr *limits = &r->device->limits;

	return (struct rdma_conn_param){
		.qp_num = r->number,
		.responder_resources = (uint8_t)MIN(r->responder_resources, limits->max_qp_rd_atom),
		.initiator_depth = (uint8_t)MIN(r->initiator_depth, limits->max_qp_init_rd_atom),
		.retry_count = RDMA_RETRY,
		.rnr_retry_count = RDMA_RNR_RETRY,
		.private_data = r->connect_data.reply,
		.private_data_len = r->connect_data.reply_bytes,
	};
}

/* A step of the queue pair to a state, with the attributes that the kernel has for it. */
static int rdma_conn_step(struct rdma_conn *r, enum ibv_qp_state state)
{
	struct rdma_conn_param accept = rdma_conn_param(r);
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask;

	if (rdma_init_qp_attr(r->id, &attr, &mask) < 0)
		return -errno;
	attr.max_dest_rd_atomic = accept.responder_resources;
	attr.max_rd_atomic = accept.initiator_depth;
	attr.min_rnr_timer = RDMA_RNR_TIMER;
	return -ibv_modify_qp(r->id->qp, &attr, mask);
}

/* The step to RTR looks for the client's Ethernet address. */
static int rdma_conn_connect(struct rdma_conn *r)
{
	int rc = rdma_conn_step(r, IBV_QPS_RTR);

	return rc < 0 ? rc : rdma_conn_step(r, IBV_QPS_RTS);
}

static int rdma_conn_answer(struct rdma_conn *r)
{
	struct rdma_conn_param accept = rdma_conn_param(r);

	if (rdma_accept(r->id, &accept) < 0)
		return -errno;
	rdma_conn_become(r, RDMA_ACCEPTED);
	return 0;
}

static void rdma_conn_connected(struct rdma_conn *r, int rc)
{
	struct ibv_qp *qp = r->id->qp;

	/* Without one the library leaves the steps of the queue pair to its caller. */
	r->id->qp = NULL;
	if (rc == 0)
		rc = rdma_conn_answer(r);
	r->id->qp = qp;
	if (rc < 0) {
		conn_failed(r->conn, -rc);
		return;
	}
	rdma_queue_want_receives(r);
	conn_ready(r->conn);
}

/* Over iWARP the client's TCP connection is there, and no address is looked for. */
int rdma_conn_accept(struct rdma_conn *r)
{
	r->reads = r->device->reads && rdma_conn_param(r).initiator_depth > 0;
	if (r->id->verbs->device->transport_type == IBV_TRANSPORT_IWARP)
		return rdma_conn_answer(r);
	return rdma_step_start(r, rdma_conn_connect, rdma_conn_connected);
}
