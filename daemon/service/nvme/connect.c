/* Service `nvme`: Connect.  See nvme/queue.h. */
#include <stdio.h>
#include <string.h>

#include "queue.h"

/* ---- Connect ---- */

static uint16_t connect_check(struct nvme_command *d)
{
	if (d->sqe.opcode != NVME_FABRICS || d->sqe.fctype != NVME_CONNECT)
		return NVME_SEQUENCE_ERROR | NVME_DNR;
	if (d->sqe.sgl.length != NVME_CONNECT_DATA)
		return NVME_SGL_LENGTH_INVALID | NVME_DNR;
	if (d->sqe.sgl.type != NVME_SGL_CAPSULE &&
	    (d->sqe.sgl.type != NVME_SGL_TRANSPORT || !d->queue->transport->rdma))
		return NVME_SGL_TYPE_INVALID | NVME_DNR;
	d->length = NVME_CONNECT_DATA;
	return NVME_SUCCESS;
}

static uint16_t check_size(const struct worker *w, const struct nvme_connect *connect,
			   uint64_t *ret_result)
{
	unsigned entries = connect->qid ? nvme_entries(w) : NVME_ADMIN_ENTRIES_MAX;

	*ret_result = 44 | NVME_IN_SQE;
	if (connect->sqsize == 0 || connect->sqsize >= entries || connect->qid > NVME_QUEUES_MAX)
		return NVME_CONNECT_INVALID | NVME_DNR;
	*ret_result = 0;
	return w->drain.on ? NVME_CONNECT_BUSY : NVME_SUCCESS;
}

/* Over TLS a host is the one, and reaches the subsystem, of the identity whose key it has proved.
 */
static uint16_t check_identity(const struct nvme_queue *q, const struct nvme_connect *connect)
{
	const struct service *s = q->conn->worker->service;
	const char *identity = s->identity ? s->identity(q->conn) : NULL;
	char nqns[2 * NVME_NQN_MAX];
	size_t bytes = (size_t)sprintf(nqns, "%s %s", connect->hostnqn, connect->subnqn);

	if (!s->identity || (identity && !strncmp(identity + SERVICE_IDENTITY_NQNS, nqns, bytes) &&
			     strchr(" ", identity[SERVICE_IDENTITY_NQNS + bytes])))
		return NVME_SUCCESS;
	conn_warn(q->conn, "Connect of %s, but the key that it has proved is of %s", nqns,
		  identity ? identity : "no NVMe host");
	return NVME_CONNECT_HOST | NVME_DNR;
}

/* Connect has succeeded: sets the queue up. */
static void connect_done(struct nvme_queue *q, const struct nvme_connect *connect)
{
	const struct nvme_target *target = q->conn->worker->shared;
	uint64_t now = q->conn->worker->turn.now_ns;

	if (nvme_commands_init(q, connect->sqsize + 1U) < 0) {
		conn_close(q->conn, CONN_END_ERROR);
		return;
	}
	q->phase = NVME_PHASE_LIVE;
	q->conn->flags |= CONN_LASTING;
	q->sqsize = connect->sqsize;
	q->sqhd = 1; /* Connect was the first command */
	q->no_flow_control = connect->no_flow_control;
	q->verbs = connect->qid ? nvme_io_verbs : nvme_admin_verbs;
	q->kato_ns = (uint64_t)connect->kato_ms * NS_PER_MS;
	q->log_generation = nvme_ports_generation(target->ports);
	if (connect->qid)
		q->alive_ns = 0;
	else
		q->alive_ns = now + (q->kato_ns ? q->kato_ns : NVME_ENABLE_NS);
}

static uint16_t connect_start(struct nvme_command *d)
{
	struct nvme_queue *q = d->queue;
	struct worker *w = q->conn->worker;
	struct nvme_connect connect;
	uint16_t status = nvme_parse_connect(&d->sqe, d->page, &connect, &d->result);

	if (!status)
		status = check_identity(q, &connect);
	if (!status)
		status = check_size(w, &connect, &d->result);
	if (!status)
		status = nvme_member_connect(w->shared, q->member, &connect,
					     connect.qid ? in6addr_any : conn_client(q->conn),
					     &d->result);
	if (status == NVME_WAIT) {
		nvme_command_set(d, NVME_HOLD);
		if (!q->connect_waits)
			q->alive_ns = w->turn.now_ns + NVME_WAIT_NS;
		q->connect_waits = true;
		return NVME_STARTED;
	}
	if (!status) {
		d->result = q->member->controller->cntlid;
		connect_done(q, &connect);
	}
	return status;
}

void nvme_connect_go_on(struct nvme_queue *q, bool too_long)
{
	struct nvme_command *d = q->held;

	q->held = NULL;
	if (too_long)
		nvme_command_end(d, NVME_CONNECT_BUSY);
	else
		nvme_command_start(d);
}

static const struct nvme_verb connect_verb = { NVME_FABRICS, NVME_OP_fabrics, connect_check,
					       connect_start };
const struct nvme_verbs nvme_connect_verbs = { &connect_verb, 1 };
