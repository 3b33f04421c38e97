/* Service `nvme`: PDUs in and out.  See nvme/queue.h. */
#include <string.h>

#include "bytes.h"
#include "crc32c.h"
#include "queue.h"

/* ---- Sending ---- */

/* Sends the host the reason (C2HTermReq), then ends the connection. */
static void fail(struct nvme_queue *q, enum nvme_tcp_fes fes, uint32_t fei)
{
	struct nvme_tcp_fault fault = { .fes = (uint8_t)fes, .fei = fei };
	uint8_t pdu[NVME_TCP_TERM_MAX];

	q->phase = NVME_PHASE_ENDING;
	q->receiving = NULL;
	q->alive_ns = q->conn->worker->turn.now_ns + NVME_PDU_NS;
	conn_write(q->conn, pdu, /* without memory for it the connection ends without a reason */
		   nvme_tcp_build_term(pdu, &fault, q->header, q->header_have));
}

static size_t build_rsp(const struct nvme_command *d, uint8_t to[static NVME_TCP_RSP_MAX])
{
	struct nvme_cqe cqe = nvme_completion_of(d);

	return nvme_tcp_build_rsp(to, &d->queue->terms, &cqe);
}

static void tcp_done(struct nvme_command *d)
{
	nvme_command_replied(d);
	nvme_command_put(d);
}

static bool tcp_reply(struct nvme_command *d)
{
	uint8_t pdu[NVME_TCP_RSP_MAX];

	if (!conn_try_write(d->queue->conn, pdu, build_rsp(d, pdu)))
		return false;
	tcp_done(d);
	return true;
}

static bool tcp_ask(struct nvme_command *d)
{
	struct nvme_queue *q = d->queue;
	struct nvme_tcp_data r2t = {
		.cid = d->sqe.cid,
		.ttag = (uint16_t)(d - q->commands),
		.offset = d->got_bytes,
		.length = MIN(d->length - d->got_bytes, q->terms.h2c_max),
	};
	uint8_t pdu[NVME_TCP_RSP_MAX];

	if (!conn_try_write(q->conn, pdu, nvme_tcp_build_r2t(pdu, &q->terms, &r2t)))
		return false;
	d->asked_bytes = d->got_bytes + r2t.length;
	d->step = NVME_RECEIVE;
	return true;
}

/* Writes what follows data: its digest, and the completion if it is the last data
 * and no flag replaces that. */
static size_t build_tail(const struct nvme_command *d, uint32_t digest, bool rsp, uint8_t *to)
{
	size_t bytes = 0;

	if (d->queue->terms.data_digest) {
		put_le32(to, digest);
		bytes = NVME_TCP_DIGEST;
	}
	return rsp ? bytes + build_rsp(d, to + bytes) : bytes;
}

/* The views for the header before d's data and the `tail` bytes after it (at the end of *ret_tail):
 * the data's own view if d->framed, else one before and one after.  NULL: no memory. */
static struct view *tcp_frame(struct nvme_command *d, size_t tail, struct view **ret_tail)
{
	struct worker *w = d->queue->conn->worker;
	size_t head = d->queue->terms.data_offset;
	struct bufq front = { 0 };
	struct view *v;

	*ret_tail = d->data.head;
	if (d->framed)
		return d->data.head;
	v = conn_room(w, 0, head + tail, 1);
	if (!v) {
		conn_wait_for_memory(d->queue->conn);
		return NULL;
	}
	v->data += head;
	v->len = 0;
	bufq_push(&front, v);
	bufq_prepend(&d->data, &front);
	*ret_tail = v;
	if (tail > 0) {
		*ret_tail = view_new(&w->pool, v->chunk, v->data, 0);
		bufq_push(&d->data, *ret_tail);
	}
	return v;
}

/* Queues a part of the data as a PDU.  flags: see nvme_tcp_build_data(). */
static bool tcp_send_part(struct nvme_command *d, const struct nvme_tcp_data *part, unsigned flags)
{
	const struct nvme_tcp_terms *terms = &d->queue->terms;
	bool rsp = (flags & NVME_TCP_LAST) && !(flags & NVME_TCP_SUCCESS);
	uint8_t header[NVME_TCP_DATA_MAX], end[NVME_TCP_DIGEST + NVME_TCP_RSP_MAX];
	struct view *head, *tail;
	uint32_t digest = 0;
	size_t n;

	for (const struct view *v = d->data.head; v && terms->data_digest; v = v->next)
		digest = crc32c(digest, v->data, v->len);
	n = build_tail(d, digest, rsp, end);
	head = tcp_frame(d, n, &tail);
	if (!head)
		return false;
	memcpy(tail->data + tail->len, end, n);
	tail->len += (uint32_t)n;
	nvme_tcp_build_data(header, terms, part, flags);
	head->data -= terms->data_offset;
	head->len += terms->data_offset;
	memcpy(head->data, header, terms->data_offset);
	d->data.bytes += terms->data_offset + n;
	bufq_splice(&d->queue->conn->tx, &d->data);
	return true;
}

static bool tcp_send(struct nvme_command *d)
{
	struct nvme_tcp_data part = {
		.cid = d->sqe.cid,
		.offset = d->done_bytes,
		.length = (uint32_t)d->data.bytes,
	};
	bool last = part.offset + part.length == d->length;
	bool silent = last && d->queue->no_flow_control && !d->result;

	if (!tcp_send_part(d, &part, (last ? NVME_TCP_LAST : 0) | (silent ? NVME_TCP_SUCCESS : 0)))
		return false;
	d->done_bytes += part.length;
	if (last)
		tcp_done(d);
	else
		nvme_command_set(d, NVME_FILL);
	return true;
}

/* ---- Receiving ---- */

/* Answers ICReq.  False: no memory. */
static bool tcp_start(struct nvme_queue *q)
{
	const struct worker *w = q->conn->worker;
	uint64_t share = w->options.buffers * w->options.buffer_size / 16;
	struct nvme_tcp_fault fault = nvme_tcp_parse_icreq(q->header, &q->terms);
	uint8_t pdu[NVME_TCP_IC];

	if (fault.fes) {
		fail(q, fault.fes, fault.fei);
		return true;
	}
	q->terms.h2c_max = (uint32_t)MIN(MAX(share / NVME_BLOCK, 1U) * NVME_BLOCK, BLOCK_PART_MAX);
	if (!conn_try_write(q->conn, pdu, nvme_tcp_build_icresp(pdu, &q->terms)))
		return false;
	q->phase = NVME_PHASE_CONNECT;
	return true;
}

/* Does the in-capsule data match the command's SGL? */
static bool tcp_check_capsule(struct nvme_queue *q, const struct nvme_sqe *sqe)
{
	uint32_t limit = q->member->qid ? NVME_CAPSULE : NVME_ADMIN_CAPSULE;
	bool capsule = sqe->sgl.type == NVME_SGL_CAPSULE && sqe->sgl.length > 0;

	if (!q->pdu.data_bytes && !capsule)
		return true;
	if (!capsule || sqe->sgl.length != q->pdu.data_bytes)
		fail(q, NVME_TCP_INVALID_FIELD, 4);
	else if (sqe->sgl.address != 0)
		fail(q, NVME_TCP_UNSUPPORTED, NVME_TCP_COMMON + 24);
	else if (sqe->sgl.length > limit)
		fail(q, NVME_TCP_LIMIT, 0);
	else
		return true;
	return false;
}

/* Takes a command.  False: all commands of the queue are in use. */
static bool tcp_command(struct nvme_queue *q)
{
	struct nvme_command *d;

	if (block_is_full(q->conn) || nvme_pages_are_short(q))
		return false;
	d = nvme_command_get(q);
	if (!d)
		return false;
	nvme_parse_sqe(q->header + NVME_TCP_COMMON, &d->sqe);
	if (!tcp_check_capsule(q, &d->sqe)) {
		nvme_command_put(d);
		return true;
	}
	q->drop_bytes = q->pdu.pad_bytes;
	nvme_command_begin(d, q->pdu.data_bytes);
	return true;
}

/* Finds the command that has asked for this data. */
static struct nvme_command *find_asked(const struct nvme_queue *q, const struct nvme_tcp_data *data)
{
	struct nvme_command *d = data->ttag < q->used ? &q->commands[data->ttag] : NULL;

	return d && (d->step == NVME_RECEIVE || d->step == NVME_IO) &&
			       d->asked_bytes > d->got_bytes && d->sqe.cid == data->cid
		       ? d
		       : NULL;
}

/* False: it has to wait. */
static bool tcp_data(struct nvme_queue *q)
{
	struct nvme_tcp_data data;
	struct nvme_command *d;

	nvme_tcp_parse_data(q->header, &data);
	d = find_asked(q, &data);
	if (d && d->verb->start && !d->page && nvme_pages_are_short(q))
		return false;
	if (!d)
		fail(q, NVME_TCP_SEQUENCE, 0);
	else if (data.length == 0 || data.length != q->pdu.data_bytes)
		fail(q, NVME_TCP_INVALID_FIELD, 16);
	else if (data.length > q->terms.h2c_max)
		fail(q, NVME_TCP_LIMIT, 0);
	else if (data.offset != d->got_bytes || data.length > d->asked_bytes - d->got_bytes)
		fail(q, NVME_TCP_OUT_OF_RANGE, 0);
	else if (q->pdu.last && data.length < d->asked_bytes - d->got_bytes)
		fail(q, NVME_TCP_SEQUENCE, 0);
	else {
		q->drop_bytes = q->pdu.pad_bytes;
		nvme_receive(d, data.length);
	}
	return true;
}

/* Handles a complete header; false: it has to wait. */
static bool tcp_take(struct nvme_queue *q)
{
	uint8_t type = q->pdu.type;
	bool intact = q->pdu.header_bytes == q->header[2] || nvme_tcp_header_is_intact(q->header);
	bool taken = true;

	if (!intact)
		fail(q, NVME_TCP_HEADER_DIGEST, 0);
	else if (type == NVME_TCP_H2C_TERM)
		conn_close(q->conn, CONN_END_PROTOCOL);
	else if ((type == NVME_TCP_ICREQ) != (q->phase == NVME_PHASE_ICREQ))
		fail(q, NVME_TCP_SEQUENCE, 0);
	else if (type == NVME_TCP_ICREQ)
		taken = tcp_start(q);
	else if (type == NVME_TCP_H2C_DATA)
		taken = tcp_data(q);
	else
		taken = tcp_command(q);
	if (taken) {
		q->header_have = 0;
		q->pdu_ns = 0; /* each PDU has its own time: a host may be in some PDU always */
	}
	return taken;
}

/* Reads input until q->header has `bytes`; false: incomplete. */
static bool tcp_read_header(struct nvme_queue *q, unsigned bytes)
{
	struct conn *c = q->conn;
	size_t n = MIN((size_t)(bytes - q->header_have), c->rx.bytes);

	bufq_read(&c->worker->pool, &c->rx, q->header + q->header_have, n);
	q->header_have += (unsigned)n;
	return q->header_have == bytes;
}

static bool tcp_next(struct nvme_queue *q)
{
	const struct view *v = q->conn->rx.head;
	const uint8_t *common = q->header;
	struct nvme_tcp_fault fault;

	if (q->header_have < NVME_TCP_COMMON) {
		if (likely(q->header_have == 0 && v && v->len >= NVME_TCP_COMMON))
			common = v->data; /* the usual case: the header is in one view */
		else if (!tcp_read_header(q, NVME_TCP_COMMON))
			return false;
		fault = nvme_tcp_judge(common, &q->terms, &q->pdu);
		if (unlikely(fault.fes)) {
			tcp_read_header(q, NVME_TCP_COMMON);
			fail(q, fault.fes, fault.fei);
			return false;
		}
	}
	if (q->header_have < q->pdu.header_bytes && !tcp_read_header(q, q->pdu.header_bytes))
		return false;
	if (tcp_take(q))
		return true;
	q->conn->flags |= CONN_WATCH_TX; /* the header waits in q->header and no longer in rx */
	return false;
}

static bool tcp_step(struct nvme_queue *q)
{
	struct conn *c = q->conn;
	size_t bytes;

	if (q->phase == NVME_PHASE_ENDING)
		return false;
	if (q->drop_bytes) {
		bytes = (size_t)MIN(q->drop_bytes, c->rx.bytes);
		bufq_drop(&c->worker->pool, &c->rx, bytes);
		q->drop_bytes -= bytes;
		return bytes > 0;
	}
	return q->receiving ? nvme_receive_go_on(q) : tcp_next(q);
}

static uint32_t tcp_in_capsule(const struct worker *w)
{
	(void)w;
	return NVME_CAPSULE;
}

const struct nvme_transport nvme_tcp = {
	.phase = NVME_PHASE_ICREQ,
	.in_capsule = tcp_in_capsule,
	.take = tcp_step,
	.receive = nvme_receive,
	.steps = { [NVME_ASK] = tcp_ask,
		   [NVME_FILL] = nvme_command_fill,
		   [NVME_SEND] = tcp_send,
		   [NVME_REPLY] = tcp_reply },
};
