/* Service `nvme`: Fabrics commands: Connect, and properties (a
 * controller's registers).  See nvme/queue.h. */
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
	q->verbs = *q->after_connect[connect->qid > 0];
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
		status = nvme_enter(w->shared, q->member, &connect,
				    connect.qid ? in6addr_any : conn_client(q->conn), &d->result);
	if (status == NVME_WAIT) {
		nvme_command_set(d, NVME_HOLD);
		if (!q->waits)
			q->alive_ns = w->turn.now_ns + NVME_WAIT_NS;
		q->waits = true;
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

/* ---- Properties ---- */

enum {
	PROPERTY_CAP = 0x00,
	PROPERTY_VS = 0x08,
	PROPERTY_CC = 0x14,
	PROPERTY_CSTS = 0x1c,

	CC_EN = 1 << 0,
	CC_SHN = 3 << 14,
	/* Fields of CC that are checked: command set, page size, arbitration, entry sizes. */
	CC_TERMS = 7 << 4 | 15 << 7 | 7 << 11 | 15 << 16 | 15 << 20,
	CC_OURS = NVME_SQES << 16 | NVME_CQES << 20,

	CSTS_RDY = 1 << 0,
	CSTS_SHUTTING_DOWN = 1 << 2,
	CSTS_SHUT_DOWN = 2 << 2,

	CAP_TIMEOUT = 30, /* maximum time to enable or disable, in units of 500 ms */
};

static uint64_t read_cap(const struct worker *w)
{
	return (nvme_entries(w) - 1) | 1ULL << 16 /* CQR */ | (uint64_t)CAP_TIMEOUT << 24 |
	       1ULL << 37 /* CSS: NVM */;
}

/* CSTS shows ready, or shutdown in progress, as long as queues may have requests in the stores. */
static uint64_t read_csts(const struct nvme_queue *q)
{
	const struct nvme_controller *n = q->member->controller;
	bool busy = nvme_queue_count(n) > 0;
	uint64_t csts = 0;

	if (nvme_state(n) == NVME_ENABLED || (nvme_state(n) == NVME_STOPPING && busy) ||
	    (q->cc & CC_EN))
		csts = CSTS_RDY;
	if (q->cc & CC_SHN)
		csts |= busy ? CSTS_SHUTTING_DOWN : CSTS_SHUT_DOWN;
	return csts;
}

/* The requests for events end without a completion, and no event is enabled. */
static void reset_events(struct nvme_queue *q)
{
	for (struct nvme_command *d; (d = q->held);) {
		q->held = d->next;
		nvme_command_put(d);
	}
	q->event_mask = 0;
	q->log_reported = false;
}

static uint16_t write_cc(struct nvme_queue *q, uint32_t cc)
{
	struct nvme_controller *n = q->member->controller;
	bool runs = (cc & CC_EN) && !(cc & CC_SHN), ran = nvme_state(n) == NVME_ENABLED;

	if (runs && (cc & CC_TERMS) != CC_OURS)
		return NVME_INVALID_FIELD | NVME_DNR;
	if (runs && !ran && nvme_queue_count(n) > 0)
		return NVME_SEQUENCE_ERROR | NVME_DNR;
	q->cc = cc;
	if (runs && !ran)
		nvme_set_state(n, NVME_ENABLED);
	if (runs || !ran)
		return NVME_SUCCESS;
	nvme_set_state(n, NVME_STOPPING);
	reset_events(q);
	/* without keep-alive the host has to enable it again in time, or is disconnected */
	if (!q->alive_ns)
		q->alive_ns = q->conn->worker->turn.now_ns + NVME_ENABLE_NS;
	return NVME_SUCCESS;
}

uint16_t nvme_property_check(struct nvme_command *d)
{
	if (d->sqe.fctype == NVME_CONNECT)
		return NVME_SEQUENCE_ERROR | NVME_DNR;
	if (d->sqe.fctype != NVME_PROPERTY_GET && d->sqe.fctype != NVME_PROPERTY_SET)
		return NVME_INVALID_OPCODE | NVME_DNR;
	return NVME_SUCCESS;
}

static uint16_t property_get(struct nvme_command *d, uint32_t at, unsigned bytes)
{
	const struct nvme_queue *q = d->queue;

	if (at == PROPERTY_CAP && bytes == 8)
		d->result = read_cap(q->conn->worker);
	else if (at == PROPERTY_VS && bytes == 4)
		d->result = NVME_VERSION;
	else if (at == PROPERTY_CC && bytes == 4)
		d->result = q->cc;
	else if (at == PROPERTY_CSTS && bytes == 4)
		d->result = read_csts(q);
	else
		return NVME_INVALID_FIELD | NVME_DNR;
	return NVME_SUCCESS;
}

uint16_t nvme_property_start(struct nvme_command *d)
{
	uint32_t at = d->sqe.cdw11;
	unsigned bytes = d->sqe.cdw10 & 7 ? 8 : 4;

	if (d->sqe.fctype == NVME_PROPERTY_GET)
		return property_get(d, at, bytes);
	if (at == PROPERTY_CC && bytes == 4)
		return write_cc(d->queue, d->sqe.cdw12);
	return NVME_INVALID_FIELD | NVME_DNR;
}
