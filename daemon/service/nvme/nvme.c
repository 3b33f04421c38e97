/* Service `nvme`: exports as namespaces of an NVMe over Fabrics subsystem.  A connection's begin,
 * time limits and end; see nvme/queue.h for the rest. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "queue.h"

/* ---- Time ---- */

/* Is a PDU incomplete, and are we waiting only for the host to send the rest? */
static bool pdu_is_partial(const struct nvme_queue *q)
{
	const struct conn *c = q->conn;

	if (q->phase == NVME_PHASE_ENDING || !STAILQ_EMPTY(&q->todo) || block_input_is_held_up(c) ||
	    (c->flags & CONN_NO_MEMORY))
		return false; /* the input may be there: it is not taken now */
	if (q->receiving)
		return q->receiving->step != NVME_IO;
	return q->drop_bytes || (q->header_have && (q->header_have < NVME_TCP_COMMON ||
						    q->header_have < q->pdu.header_bytes));
}

static void set_deadline(struct nvme_queue *q)
{
	uint64_t ns = q->alive_ns;

	if (!pdu_is_partial(q))
		q->pdu_ns = 0;
	else if (!q->pdu_ns)
		q->pdu_ns = q->conn->worker->turn.now_ns + NVME_PDU_NS;
	if (q->pdu_ns && (!ns || q->pdu_ns < ns))
		ns = q->pdu_ns;
	q->due_ns = ns;
	conn_set_deadline(q->conn, ns);
}

/* A command on any queue extends the keep-alive deadline.  A discovery controller without
 * keep-alive ends after silence; any other one without it has no limit once enabled. */
static void deadline_passed(struct nvme_queue *q)
{
	struct nvme_controller *n = q->member->controller;
	uint64_t now = q->conn->worker->turn.now_ns;

	if (q->pdu_ns == q->due_ns) {
		conn_close(q->conn, CONN_END_PROTOCOL);
	} else if (q->phase != NVME_PHASE_LIVE) {
		if (q->held && q->phase == NVME_PHASE_CONNECT)
			nvme_connect_go_on(q, true);
		else
			conn_close(q->conn, CONN_END_PROTOCOL);
	} else if (!q->kato_ns && !n->discovery && nvme_state(n) == NVME_ENABLED) {
		q->alive_ns = 0;
	} else if (atomic_exchange(&n->seen, false)) {
		q->alive_ns = now + (q->kato_ns ? q->kato_ns : NVME_ENABLE_NS);
	} else {
		conn_close(q->conn, CONN_END_IDLE);
	}
}

/* ---- A connection's life ---- */

static int nvme_open(struct conn *c)
{
	struct nvme_queue *q = nvme_of(c);
	struct nvme_member *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	m->conn = c;
	m->worker = c->worker;
	q->conn = c;
	q->member = m;
	q->transport = c->worker->engine->messages ? &nvme_rdma : &nvme_tcp;
	q->phase = q->transport->phase;
	q->verbs = nvme_connect_verbs;
	STAILQ_INIT(&q->todo);
	q->alive_ns = clock_ns() + NVME_HANDSHAKE_NS;
	q->due_ns = q->alive_ns;
	conn_set_deadline(c, q->due_ns);
	return 0;
}

/* After an error: sends nothing more and waits until the host, having read the reason, closes. */
static void run_ending(struct nvme_queue *q)
{
	struct conn *c = q->conn;

	for (struct nvme_command *d; (d = STAILQ_FIRST(&q->todo));) {
		STAILQ_REMOVE_HEAD(&q->todo, link);
		nvme_command_put(d);
	}
	bufq_drop(&c->worker->pool, &c->rx, c->rx.bytes);
	if (c->flags & CONN_EOF)
		conn_close(c, CONN_END_PROTOCOL);
}

/* Must this queue end?  It must if its controller is stopping, or the host has shut that
 * down.  A queue that has sent the reason of an error ends by run_ending(), but its
 * controller does not wait for that. */
static bool must_end(const struct nvme_queue *q)
{
	const struct nvme_member *m = q->member;

	return (q->phase != NVME_PHASE_ENDING && (q->conn->flags & CONN_EOF)) ||
	       (m->controller && m->qid && nvme_state(m->controller) != NVME_ENABLED);
}

static void nvme_run(struct conn *c)
{
	struct nvme_queue *q = nvme_of(c);
	int64_t limit = conn_run_begin(c);

	c->flags &= ~(uint32_t)CONN_WATCH_TX;
	if (conn_deadline_passed(c))
		deadline_passed(q);
	if (must_end(q))
		conn_close(c, CONN_END_PEER);
	if (c->flags & CONN_CLOSING)
		return;
	if (q->held && q->phase == NVME_PHASE_CONNECT)
		nvme_connect_go_on(q, false);
	q->running = true;
	do
		nvme_commands_run(q);
	while (conn_goes_on(c, &limit) && STAILQ_EMPTY(&q->todo) && q->transport->take(q));
	q->running = false;
	/* Behind the commands: a request for events may have arrived with this run. */
	if ((c->worker->drain.on || q->event_mask) && q->member->qid == 0)
		nvme_admin_events(q);
	if (q->phase == NVME_PHASE_ENDING)
		run_ending(q);
	set_deadline(q);
}

static void nvme_close(struct conn *c)
{
	struct nvme_queue *q = nvme_of(c);

	nvme_commands_free(q);
	nvme_member_leave(q->member);
}

static void nvme_describe(const struct conn *c, char *text, size_t size)
{
	const struct nvme_member *m = nvme_of(c)->member;

	if (m->controller)
		snprintf(text, size, "%s, controller %u, queue %u", m->controller->hostnqn,
			 m->controller->cntlid, m->qid);
}

const struct service service_nvme = {
	.name = "nvme",
	.keys = &nvme_key_table,
	.operations = {
#define X(name) #name,
		NVME_OPERATIONS(X)
#undef X
		NULL,
	},
	.example = "nvme connect -t {transport} -a {host} -s {port} -n {name}",
	.example_psk = "nvme connect --tls -t {transport} -a {host} -s {port} -n {name}",
	.name_of = nvme_target_name,
	.describe = nvme_describe,
	.flags = SERVICE_EXPORTS | SERVICE_MESSAGES | SERVICE_KEEPS_ALIVE | SERVICE_TLS |
		 SERVICE_NVME_KEYS,
	.message_max = NVME_SQE,
	.connect = nvme_rdma_connect,
	.held_max = BLOCK_HELD_MAX,
	.shared_new = nvme_target_new,
	.shared_free = nvme_target_free,
	.listens = nvme_ports_listen,
	.settle = nvme_settle,
	.state_bytes = sizeof(struct nvme_queue),
	.open = nvme_open,
	.run = nvme_run,
	.close = nvme_close,
};
