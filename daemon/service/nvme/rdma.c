/* Service `nvme`: capsules as messages, data by reads and writes of the
 * host's memory.  See nvme/queue.h. */
#include "wire/rdma_proto.h"

#include <errno.h>

#include "connect_data.h"
#include "engine.h"
#include "queue.h"

enum {
	RDMA_ADMIN_ENTRIES_MAX = 128,
	RDMA_CAPSULE_MAX = 4096, /* bytes of data; each entry of a queue has this memory reserved */
};

/* ---- A queue's beginning ---- */

uint32_t nvme_rdma_in_capsule(const struct worker *w)
{
	return MIN(w->pool.chunk_size - NVME_SQE, (uint32_t)RDMA_CAPSULE_MAX) / 16 * 16;
}

unsigned nvme_rdma_queues(const struct worker *w)
{
	unsigned in_one = w->pool.chunk_size / (NVME_SQE + nvme_rdma_in_capsule(w));
	unsigned chunks = nvme_entries(w) / MAX(in_one, 1U) + 1;
	unsigned room = w->pool.free_count > w->pool.keep ? w->pool.free_count - w->pool.keep : 0;

	return MAX(room / chunks, 1U) * MAX(w->team.count, 1U);
}

int nvme_rdma_connect(const struct worker *w, struct connect_data *connect_data)
{
	struct nvme_rdma_request request = { 0 };
	enum nvme_rdma_status status = NVME_RDMA_RESOURCES;

	if (connect_data->data)
		status = nvme_rdma_parse_request(
			connect_data->data, connect_data->data_bytes,
			(uint32_t[]){ RDMA_ADMIN_ENTRIES_MAX, nvme_entries(w) }, &request);
	if (!status && connect_data->reads == 0)
		status = NVME_RDMA_READS;
	if (status) {
		nvme_rdma_build_reject(connect_data->reply, status);
		connect_data->reply_bytes = NVME_RDMA_REJECT;
		return -EPROTO;
	}
	connect_data->receives = request.commands;
	connect_data->message_max = NVME_SQE + (request.qid ? nvme_rdma_in_capsule(w) : 0);
	nvme_rdma_build_accept(connect_data->reply, (uint16_t)request.commands);
	connect_data->reply_bytes = NVME_RDMA_ACCEPT;
	return 0;
}

/* ---- Sending ---- */

/* Queues the completion.  False: no memory. */
static bool rdma_send_completion(struct nvme_command *d)
{
	struct conn *c = d->queue->conn;
	struct nvme_cqe completion = nvme_completion_of(d);
	uint8_t cqe[NVME_CQE];

	nvme_build_cqe(cqe, &completion);
	if (!conn_try_write(c, cqe, sizeof(cqe)))
		return false;
	if (d->sqe.sgl.invalidate)
		c->tx.tail->key = d->sqe.sgl.key;
	nvme_command_replied(d);
	return true;
}

static bool rdma_reply(struct nvme_command *d)
{
	if (!rdma_send_completion(d))
		return false;
	nvme_command_put(d);
	return true;
}

static void rdma_submit(struct nvme_command *d, enum remote_kind kind, uint32_t at,
			void (*done)(struct remote *remote, int result))
{
	d->step = NVME_IO;
	d->remote.done = done;
	d->remote.conn = d->queue->conn;
	d->remote.kind = kind;
	d->remote.key = d->sqe.sgl.key;
	d->remote.address = d->sqe.sgl.address + at;
	bufq_splice(&d->remote.data, &d->data);
	remote_submit(&d->remote);
}

static void rdma_remote_drop(struct nvme_command *d)
{
	bufq_drop(&d->queue->conn->worker->pool, &d->remote.data, d->remote.data.bytes);
}

/* A part has been written to the host's memory; or the connection is ending,
 * and its commands with it. */
static void rdma_written(struct remote *remote, int result)
{
	struct nvme_command *d = container_of(remote, struct nvme_command, remote);

	d->done_bytes += (uint32_t)remote->data.bytes;
	rdma_remote_drop(d);
	if (result < 0)
		return;
	if (d->replied)
		nvme_command_put(d);
	else
		nvme_command_set(d, d->done_bytes < d->length ? NVME_FILL : NVME_REPLY);
}

/* The completion is queued right after the last part, before that has arrived: messages and writes
 * arrive in the order in which they were posted. */
static bool rdma_send(struct nvme_command *d)
{
	bool last = d->done_bytes + d->data.bytes == d->length;

	rdma_submit(d, REMOTE_WRITE, d->done_bytes, rdma_written);
	if (last && d->step == NVME_IO)
		rdma_send_completion(d);
	return true;
}

/* ---- Receiving ---- */

/* A part of the host's data has been received. */
static void rdma_take_part(struct nvme_command *d, uint32_t bytes)
{
	struct pool *p = &d->queue->conn->worker->pool;

	d->got_bytes += bytes;
	d->asked_bytes = d->got_bytes;
	if (!d->verb->start) {
		nvme_submit_to_store(d, IO_write, d->offset + d->done_bytes, bytes);
		return;
	}
	if (!d->page && !nvme_page_new(d, d->length)) {
		bufq_drop(p, &d->data, d->data.bytes);
		nvme_command_end(d, NVME_INTERRUPTED);
		return;
	}
	bufq_read(p, &d->data, d->page + d->got_bytes - bytes, bytes);
	if (d->got_bytes < d->length)
		nvme_command_set(d, NVME_ASK);
	else
		nvme_command_start(d);
}

static void rdma_read(struct remote *remote, int result)
{
	struct nvme_command *d = container_of(remote, struct nvme_command, remote);

	if (result < 0) {
		rdma_remote_drop(d);
		return;
	}
	bufq_splice(&d->data, &remote->data);
	rdma_take_part(d, (uint32_t)d->data.bytes);
}

/* Reads as much of the remaining data as there is memory for.  A list's page is counted before the
 * next command is taken; without memory for it the command fails in rdma_take_part(). */
static bool rdma_ask(struct nvme_command *d)
{
	struct conn *c = d->queue->conn;
	uint32_t left = MIN(d->length - d->got_bytes, (uint32_t)BLOCK_PART_MAX);

	if (d->verb->start && !d->page)
		nvme_page_new(d, d->length);
	if (block_conn_is_full(c)) {
		c->flags |= CONN_WATCH_TX;
		return false;
	}
	nvme_part_room(d, conn_read_share(c, left, nvme_rest(d).unit), true);
	if (d->data.bytes == 0) {
		conn_wait_for_memory(c);
		return false;
	}
	rdma_submit(d, REMOTE_READ, d->got_bytes, rdma_read);
	return true;
}

/* Takes `bytes` of in-capsule data from the beginning of rx.  There is memory: see rdma_take(). */
static void rdma_receive(struct nvme_command *d, uint32_t bytes)
{
	struct bufq *rx = &d->queue->conn->rx;
	struct pool *p = &d->queue->conn->worker->pool;
	bool aligned = !d->io.mount || d->io.mount->export->align == 1;

	if (d->status) {
		nvme_command_set(d, NVME_REPLY);
		return;
	}
	if (aligned) {
		bufq_take(p, &d->data, rx, bytes);
	} else {
		nvme_part_room(d, bytes, true);
		assert(d->data.bytes == bytes && d->data.views == 1);
		bufq_read(p, rx, d->data.head->data, bytes);
		stat_add(d->queue->conn->worker->stats.bytes_copied, bytes);
	}
	rdma_take_part(d, bytes);
}

/* Does the range of a descriptor of in-capsule data, whose address is an
 * offset, lie within the capsule? */
static bool rdma_capsule_is_right(const struct nvme_sgl *sgl, size_t capsule)
{
	return sgl->address <= capsule && sgl->length <= capsule - sgl->address;
}

/* Takes the next capsule.  False: it has to wait. */
static bool rdma_take(struct nvme_queue *q)
{
	struct conn *c = q->conn;
	struct pool *p = &c->worker->pool;
	const struct view *v = c->rx.head;
	struct nvme_command *d;
	size_t capsule, after;

	if (!v)
		return false;
	if (v->len < NVME_SQE) {
		conn_close(c, CONN_END_PROTOCOL);
		return false;
	}
	capsule = v->len - NVME_SQE;
	if (capsule > 0 && p->free_count == 0) {
		conn_wait_for_memory(c);
		return false;
	}
	d = block_conn_is_full(c) || nvme_pages_are_short(q) ? NULL : nvme_command_get(q);
	if (!d)
		return false;
	nvme_parse_sqe(v->data, &d->sqe);
	nvme_rdma_parse_sgl(v->data, &d->sqe.sgl);
	after = c->rx.bytes - v->len;
	bufq_drop(p, &c->rx, NVME_SQE);
	if (d->sqe.sgl.type != NVME_SGL_CAPSULE) {
		nvme_command_begin(d, 0);
	} else if (rdma_capsule_is_right(&d->sqe.sgl, capsule)) {
		bufq_drop(p, &c->rx, (size_t)d->sqe.sgl.address);
		nvme_command_begin(d, d->sqe.sgl.length);
	} else {
		nvme_command_refuse(d, NVME_SGL_OFFSET_INVALID | NVME_DNR);
	}
	bufq_drop(p, &c->rx, c->rx.bytes - after);
	return true;
}

const struct nvme_transport nvme_rdma = {
	.phase = NVME_PHASE_CONNECT,
	.rdma = true,
	.in_capsule = nvme_rdma_in_capsule,
	.queues = nvme_rdma_queues,
	.take = rdma_take,
	.receive = rdma_receive,
	.steps = { [NVME_ASK] = rdma_ask,
		   [NVME_FILL] = nvme_command_fill,
		   [NVME_SEND] = rdma_send,
		   [NVME_REPLY] = rdma_reply },
};
