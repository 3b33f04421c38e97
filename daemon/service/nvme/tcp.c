/* Service `nvme`: PDUs in and out.  See nvme/queue.h.
 *
 * The data of a write: tcp_receive_data(), tcp_write_received(); then nvme_submit_to_store() in
 * nvme/command.c. */
#include <string.h>

#include "bytes.h"
#include "crc32c.h"
#include "queue.h"

/* ---- Data of hosts, for a store or into d->page ----
 *
 * Data for a store stays in the input until its PDU is complete and the digest has been verified.
 * If memory is too short to receive the whole PDU, whole blocks are written as they arrive: if the
 * digest is wrong then, the command fails, these blocks are undefined, and the host writes them
 * again.  A write never ends within a block: see block_part_bytes(). */

/* A PDU with `bytes` of data for command d follows in the input. */
static void tcp_begin_data(struct nvme_command *d, uint32_t bytes)
{
	struct nvme_queue *q = d->queue;

	if (unlikely(d->split))
		nvme_page_split(d, false);
	if (d->verb->start && !d->page && !d->status && !nvme_page_new(d, d->length))
		d->status = NVME_INTERRUPTED;
	if (d->step != NVME_IO)
		d->step = NVME_RECEIVE;
	d->asked_bytes = MAX(d->asked_bytes, d->got_bytes + bytes);
	q->receiving = d;
	q->data_left = bytes;
	q->digest = 0;
	q->intact = false;
}

/* Fails the command: the rest of its data is dropped. */
static void receive_fail(struct nvme_command *d, uint16_t status)
{
	d->status = status;
	if (d->step != NVME_IO)
		bufq_drop(&d->queue->conn->worker->pool, &d->data, d->data.bytes);
}

/* ---- A PDU's end ---- */

static bool receive_digest_came(const struct nvme_queue *q)
{
	return !q->terms.data_digest || q->conn->rx.bytes >= NVME_TCP_DIGEST;
}

static void receive_digest(struct nvme_queue *q)
{
	uint8_t digest[NVME_TCP_DIGEST];

	if (!q->terms.data_digest)
		return;
	bufq_read(&q->conn->worker->pool, &q->conn->rx, digest, sizeof(digest));
	if (!q->intact && get_le32(digest) != q->digest && !q->receiving->status)
		receive_fail(q->receiving, NVME_TRANSPORT_ERROR);
}

/* Called after a PDU that ends within a list or a block.  The PDU with the rest may come after PDUs
 * of other commands, so nothing can wait for it: beyond the limit of such commands this one fails,
 * and the host repeats it. */
static void receive_split(struct nvme_command *d)
{
	if (d->queue->split < NVME_PAGES_MAX) {
		nvme_page_split(d, true);
		return;
	}
	nvme_page_free(d);
	receive_fail(d, NVME_INTERRUPTED);
}

/* The end of a PDU's data: checks the digest. */
static bool receive_end(struct nvme_queue *q)
{
	struct nvme_command *d = q->receiving;

	if (!receive_digest_came(q))
		return false;
	receive_digest(q);
	q->receiving = NULL;
	q->pdu_ns = 0;
	if (d->page && !d->status && d->got_bytes < d->length)
		receive_split(d);
	if (d->step != NVME_IO)
		nvme_data_next(d);
	return true;
}

static void receive_count(struct nvme_queue *q, uint32_t bytes)
{
	q->data_left -= bytes;
	q->receiving->got_bytes += bytes;
}

/* ---- Into memory ---- */

static bool receive_drop(struct nvme_queue *q)
{
	uint32_t bytes = (uint32_t)MIN(q->data_left, q->conn->rx.bytes);

	bufq_drop(&q->conn->worker->pool, &q->conn->rx, bytes);
	receive_count(q, bytes);
	return bytes > 0;
}

/* Must the digest of the data that is taken be counted, as it has not been verified before? */
static bool receive_counts_digest(const struct nvme_queue *q)
{
	return q->terms.data_digest && !q->intact;
}

/* Copies input to the command's memory and updates the digest. */
static void receive_copy(struct nvme_queue *q, uint8_t *to, uint32_t bytes)
{
	bufq_read(&q->conn->worker->pool, &q->conn->rx, to, bytes);
	if (receive_counts_digest(q))
		q->digest = crc32c(q->digest, to, bytes);
	receive_count(q, bytes);
}

static bool receive_page(struct nvme_queue *q)
{
	struct nvme_command *d = q->receiving;
	uint32_t bytes = (uint32_t)MIN(q->data_left, q->conn->rx.bytes);

	receive_copy(q, d->page + d->got_bytes, bytes);
	return bytes > 0;
}

/* ---- To a store ---- */

/* Bytes of the PDU's data to be written now; 0: wait for more.  They wait for the whole PDU and its
 * digest, unless no more can be received before some are written. */
static uint32_t receive_ready(const struct nvme_queue *q)
{
	const struct conn *c = q->conn;
	uint32_t digest = q->terms.data_digest && !q->intact ? NVME_TCP_DIGEST : 0;

	if (c->rx.bytes >= q->data_left + digest)
		return q->data_left;
	return block_input_is_held_up(c) ? (uint32_t)MIN(q->data_left, c->rx.bytes) : 0;
}

/* Verifies the digest of the PDU, all of whose rest is in the input,
 * without taking it from there. */
static bool receive_is_intact(const struct nvme_queue *q)
{
	uint32_t digest = q->digest, left = q->data_left;
	uint8_t sent[NVME_TCP_DIGEST] = { 0 };
	unsigned have = 0;

	for (const struct view *v = q->conn->rx.head; v && have < sizeof(sent); v = v->next) {
		uint32_t n = MIN(v->len, left);

		digest = crc32c(digest, v->data, n);
		left -= n;
		while (n < v->len && have < sizeof(sent))
			sent[have++] = v->data[n++];
	}
	return get_le32(sent) == digest;
}

/* Takes the received chunks without copying. */
static void receive_views(struct nvme_queue *q, uint32_t bytes)
{
	struct nvme_command *d = q->receiving;

	bufq_take(&q->conn->worker->pool, &d->data, &q->conn->rx, bytes);
	for (const struct view *v = d->data.head; v && receive_counts_digest(q); v = v->next)
		q->digest = crc32c(q->digest, v->data, v->len);
	receive_count(q, bytes);
}

/* Copies a partial block to malloc()ed memory, because its rest comes in another PDU or cannot be
 * received while this occupies the pool. */
static bool receive_begin(struct nvme_queue *q, uint32_t bytes)
{
	struct nvme_command *d = q->receiving;

	if (!d->page && !nvme_page_new(d, nvme_rest(d).unit)) {
		receive_fail(d, NVME_INTERRUPTED);
		return true;
	}
	receive_copy(q, d->page + d->partial_bytes, bytes);
	d->partial_bytes += bytes;
	return true;
}

/* Copies whole blocks into memory that is aligned as the store requires. */
static bool receive_blocks(struct nvme_queue *q, const struct block_rest *rest, uint32_t bytes)
{
	struct nvme_command *d = q->receiving;
	uint32_t partial = d->partial_bytes;
	uint32_t whole = (uint32_t)block_part_bytes(rest, partial + bytes);

	if (whole == 0)
		return receive_begin(q, bytes);
	nvme_part_room(d, whole, false);
	if (d->data.bytes == 0) {
		conn_wait_for_memory(q->conn);
		return false;
	}
	for (struct view *v = d->data.head; v; v = v->next) {
		if (partial)
			memcpy(v->data, d->page, partial);
		receive_copy(q, v->data + partial, v->len - partial);
		partial = 0;
	}
	d->partial_bytes = 0;
	nvme_page_free(d);
	stat_add(q->conn->worker->stats.bytes_copied, d->data.bytes);
	return true;
}

static bool tcp_write_received(struct nvme_queue *q)
{
	struct nvme_command *d = q->receiving;
	struct block_rest rest;
	uint32_t bytes, whole = 0;

	if (d->step == NVME_IO) /* a part is in flight */
		return false;
	bytes = receive_ready(q);
	if (bytes == 0)
		return false;
	if (bytes == q->data_left && receive_counts_digest(q) &&
	    q->conn->rx.bytes >= bytes + NVME_TCP_DIGEST) {
		q->intact = receive_is_intact(q);
		if (!q->intact) {
			receive_fail(d, NVME_TRANSPORT_ERROR);
			return true;
		}
	}
	rest = nvme_rest(d);
	if (!d->partial_bytes)
		whole = (uint32_t)block_bytes_without_copy(q->conn, d->io.mount->export, &rest,
							   bytes);
	if (whole)
		receive_views(q, whole);
	else if (!receive_blocks(q, &rest, bytes))
		return false;
	if (d->data.bytes)
		nvme_submit_to_store(d, IO_write, d->offset + d->done_bytes, d->data.bytes);
	return true;
}

/* Takes data that has arrived; false: nothing can be done now.  Not inlined: each PDU without data
 * would save the registers that this needs. */
__attribute__((noinline)) static bool tcp_receive_data(struct nvme_queue *q)
{
	const struct nvme_command *d = q->receiving;

	if (q->data_left == 0)
		return receive_end(q);
	if (d->status)
		return receive_drop(q);
	return d->verb->start ? receive_page(q) : tcp_write_received(q);
}

/* ---- Sending ---- */

/* Sends the host the reason (C2HTermReq), then ends the connection. */
static void tcp_fail(struct nvme_queue *q, enum nvme_tcp_fes fes, uint32_t fei)
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
		tcp_fail(q, fault.fes, fault.fei);
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
		tcp_fail(q, NVME_TCP_INVALID_FIELD, 4);
	else if (sqe->sgl.address != 0)
		tcp_fail(q, NVME_TCP_UNSUPPORTED, NVME_TCP_COMMON + 24);
	else if (sqe->sgl.length > limit)
		tcp_fail(q, NVME_TCP_LIMIT, 0);
	else
		return true;
	return false;
}

/* Takes a command.  False: all commands of the queue are in use. */
static bool tcp_command(struct nvme_queue *q)
{
	struct nvme_command *d;

	if (block_conn_is_full(q->conn) || nvme_pages_are_short(q))
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
		tcp_fail(q, NVME_TCP_SEQUENCE, 0);
	else if (data.length == 0 || data.length != q->pdu.data_bytes)
		tcp_fail(q, NVME_TCP_INVALID_FIELD, 16);
	else if (data.length > q->terms.h2c_max)
		tcp_fail(q, NVME_TCP_LIMIT, 0);
	else if (data.offset != d->got_bytes || data.length > d->asked_bytes - d->got_bytes)
		tcp_fail(q, NVME_TCP_OUT_OF_RANGE, 0);
	else if (q->pdu.last && data.length < d->asked_bytes - d->got_bytes)
		tcp_fail(q, NVME_TCP_SEQUENCE, 0);
	else {
		q->drop_bytes = q->pdu.pad_bytes;
		tcp_begin_data(d, data.length);
	}
	return true;
}

/* Handles a complete header; false: it has to wait. */
static bool tcp_handle_pdu(struct nvme_queue *q)
{
	uint8_t type = q->pdu.type;
	bool intact = q->pdu.header_bytes == q->header[2] || nvme_tcp_header_is_intact(q->header);
	bool taken = true;

	if (!intact)
		tcp_fail(q, NVME_TCP_HEADER_DIGEST, 0);
	else if (type == NVME_TCP_H2C_TERM)
		conn_close(q->conn, CONN_END_PROTOCOL);
	else if ((type == NVME_TCP_ICREQ) != (q->phase == NVME_PHASE_ICREQ))
		tcp_fail(q, NVME_TCP_SEQUENCE, 0);
	else if (type == NVME_TCP_ICREQ)
		taken = tcp_start(q);
	else if (type == NVME_TCP_H2C_DATA)
		taken = tcp_data(q);
	else
		taken = tcp_command(q);
	if (taken) {
		q->header_have = 0;
		/* set_deadline() sets a new deadline for the next PDU.  Otherwise a host that
		 * always has a PDU in progress would reach the deadline of an earlier one. */
		q->pdu_ns = 0;
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

static bool tcp_read_pdu(struct nvme_queue *q)
{
	const struct view *v = q->conn->rx.head;
	const uint8_t *common = q->header;
	struct nvme_tcp_fault fault;

	if (q->header_have < NVME_TCP_COMMON) {
		if (likely(q->header_have == 0 && v && v->len >= NVME_TCP_COMMON))
			common = v->data; /* the usual case: the header is in one view */
		else if (!tcp_read_header(q, NVME_TCP_COMMON))
			return false;
		fault = nvme_tcp_check_pdu(common, &q->terms, &q->pdu);
		if (unlikely(fault.fes)) {
			tcp_read_header(q, NVME_TCP_COMMON);
			tcp_fail(q, fault.fes, fault.fei);
			return false;
		}
	}
	if (q->header_have < q->pdu.header_bytes && !tcp_read_header(q, q->pdu.header_bytes))
		return false;
	if (tcp_handle_pdu(q))
		return true;
	q->conn->flags |= CONN_WATCH_TX; /* the header waits in q->header and no longer in rx */
	return false;
}

static bool tcp_take_input(struct nvme_queue *q)
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
	return q->receiving ? tcp_receive_data(q) : tcp_read_pdu(q);
}

static uint32_t tcp_in_capsule(const struct worker *w)
{
	(void)w;
	return NVME_CAPSULE;
}

const struct nvme_transport nvme_tcp = {
	.phase = NVME_PHASE_ICREQ,
	.in_capsule = tcp_in_capsule,
	.take = tcp_take_input,
	.receive = tcp_begin_data,
	.steps = { [NVME_ASK] = tcp_ask,
		   [NVME_FILL] = nvme_command_fill,
		   [NVME_SEND] = tcp_send,
		   [NVME_REPLY] = tcp_reply },
};
