/* Service `nvme`: processing of all commands, and the commands of I/O queues.  See nvme/queue.h.
 *
 * A command is served in parts, one at a time; commands overlap and finish in any order.
 * nvme_submit_to_store() hands a part to the export's store, by io_submit() of core/io.h, and
 * part_done() is called when the store has read or written it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "conn_op.h"
#include "queue.h"

/* ---- Commands ---- */

int nvme_commands_init(struct nvme_queue *q, unsigned count)
{
	q->commands = calloc(count, sizeof(*q->commands));
	if (!q->commands)
		return -ENOMEM;
	q->command_count = count;
	return 0;
}

static void command_free(struct nvme_command *d)
{
	bufq_drop(&d->queue->conn->worker->pool, &d->data, d->data.bytes);
	nvme_page_free(d);
}

void nvme_page_free(struct nvme_command *d)
{
	if (!d->page)
		return;
	nvme_page_split(d, false);
	d->queue->pages--;
	free(d->page);
	d->page = NULL;
}

void nvme_page_split(struct nvme_command *d, bool split)
{
	d->queue->split += (unsigned)split - (unsigned)d->split;
	d->split = split;
}

bool nvme_page_take(struct nvme_command *d, uint8_t *page)
{
	d->page = page;
	d->queue->pages += page != NULL;
	return page;
}

bool nvme_page_new(struct nvme_command *d, size_t bytes)
{
	return nvme_page_take(d, calloc(1, bytes));
}

void nvme_commands_free(struct nvme_queue *q)
{
	if (q->first.queue)
		command_free(&q->first);
	for (unsigned i = 0; i < q->used; i++)
		command_free(&q->commands[i]);
	free(q->commands);
}

/* A slot of the queue's array, which Connect allocates; before that the only command is q->first,
 * Connect itself.  A free slot owns nothing: command_free() has dropped its views and its page. */
static void command_init(struct nvme_command *d, struct nvme_queue *q)
{
	d->queue = q;
	d->step = NVME_RECEIVE;
	d->verb = NULL;
	d->length = d->done_bytes = d->got_bytes = d->asked_bytes = 0;
	d->page_bytes = d->partial_bytes = 0;
	d->start_ns = d->result = 0;
	d->status = NVME_SUCCESS;
	d->io.mount = NULL;
	d->io.flags = 0;
	d->replied = false;
	q->busy++;
}

struct nvme_command *nvme_command_get(struct nvme_queue *q)
{
	struct nvme_command *d = q->free;

	if (d)
		q->free = d->next;
	else if (q->used < q->command_count)
		d = &q->commands[q->used++];
	else if (!q->commands && q->busy == 0)
		d = &q->first;
	else
		return NULL;
	command_init(d, q);
	return d;
}

struct nvme_cqe nvme_completion_of(const struct nvme_command *d)
{
	const struct nvme_queue *q = d->queue;

	return (struct nvme_cqe){
		.result = d->result,
		.sqhd = q->no_flow_control ? 0xffff : q->sqhd,
		.sqid = q->member->qid,
		.cid = d->sqe.cid,
		.status = d->status,
	};
}

void nvme_command_replied(struct nvme_command *d)
{
	struct conn *c = d->queue->conn;

	conn_op_reply(c, d->verb->operation, d->start_ns);
	if (d->status)
		stat_add(c->worker->stats.operations[d->verb->operation].errors, 1);
	d->replied = true;
}

void nvme_command_put(struct nvme_command *d)
{
	struct nvme_queue *q = d->queue;

	command_free(d);
	q->busy--;
	if (d == &q->first)
		return;
	d->next = q->free;
	q->free = d;
}

/* While nvme_run() runs (q->running) it looks at `todo` itself; otherwise the queue has to run. */
void nvme_command_set(struct nvme_command *d, enum nvme_step step)
{
	struct nvme_queue *q = d->queue;

	d->step = (uint8_t)step;
	if (step == NVME_HOLD) {
		d->next = q->held;
		q->held = d;
	}
	if (step < NVME_TODO)
		return;
	STAILQ_INSERT_TAIL(&q->todo, d, link);
	if (!q->running)
		conn_ready(q->conn);
}

unsigned nvme_entries(const struct worker *w)
{
	uint64_t entries = NVME_ADMIN_ENTRIES_MAX;

	for (unsigned i = 0; i < w->mount_count; i++)
		entries = MIN(entries, w->mounts[i].export->options->queue_depth);
	return (unsigned)MAX(entries, 2U);
}

static const struct nvme_verb invalid_verb = { .operation = NVME_OP_invalid };

static const struct nvme_verb *find_verb(const struct nvme_queue *q, uint8_t opcode)
{
	if (q->phase == NVME_PHASE_CONNECT)
		return q->verbs.list; /* it refuses all but Connect */
	for (unsigned i = 0; i < q->verbs.count; i++)
		if (q->verbs.list[i].opcode == opcode)
			return &q->verbs.list[i];
	return &invalid_verb;
}

/* Starts to receive the host's data: from the capsule, or by asking the host for it. */
static void command_fetch(struct nvme_command *d, uint32_t capsule_bytes)
{
	d->page_bytes = d->length;
	if (capsule_bytes)
		d->queue->transport->receive(d, capsule_bytes);
	else
		nvme_command_set(d, NVME_ASK);
}

/* Accounts for a command received, which also shows that the host is alive. */
static void count_command(struct nvme_queue *q)
{
	struct nvme_controller *n = q->member->controller;

	if (q->sqhd++ == q->sqsize)
		q->sqhd = 0;
	if (n && !atomic_load_explicit(&n->seen, memory_order_relaxed))
		atomic_store_explicit(&n->seen, true, memory_order_relaxed);
}

void nvme_command_refuse(struct nvme_command *d, uint16_t status)
{
	count_command(d->queue);
	d->verb = find_verb(d->queue, d->sqe.opcode);
	nvme_command_end(d, status);
}

void nvme_command_start(struct nvme_command *d)
{
	uint16_t status = d->verb->start(d);

	if (status != NVME_STARTED)
		nvme_command_end(d, status);
}

void nvme_command_begin(struct nvme_command *d, uint32_t capsule_bytes)
{
	struct nvme_queue *q = d->queue;
	const struct worker *w = q->conn->worker;
	bool to_us;

	count_command(q);
	d->start_ns = w->turn.sampling ? w->turn.now_ns : 0;
	d->verb = find_verb(q, d->sqe.opcode);
	d->status = d->verb->check ? d->verb->check(d) : NVME_INVALID_OPCODE | NVME_DNR;
	to_us = nvme_direction(&d->sqe) == NVME_TO_CONTROLLER && d->length > 0;
	if (capsule_bytes && !d->status && (!to_us || d->length != capsule_bytes))
		d->status = NVME_INVALID_FIELD | NVME_DNR;
	if (capsule_bytes && d->status) /* answered after its data has been received */
		q->transport->receive(d, capsule_bytes);
	else if (d->status)
		nvme_command_set(d, NVME_REPLY);
	else if (to_us)
		command_fetch(d, capsule_bytes);
	else
		nvme_command_start(d);
}

/* ---- A part ---- */

static void part_done(struct io *io, int result);

/* From here to part_done() the views of d->data belong to the store, and conn_io_begin() keeps the
 * connection from being freed, even if the host disconnects.  part_done() may be called before
 * io_submit() returns: nothing of d may be used after that. */
void nvme_submit_to_store(struct nvme_command *d, enum io_kind kind, uint64_t offset,
			  uint64_t length)
{
	struct conn *c = d->queue->conn;
	size_t bytes;

	d->step = NVME_IO;
	d->io.conn = c;
	d->io.done = part_done;
	d->io.kind = (uint8_t)kind;
	d->io.offset = offset;
	d->io.length = length;
	d->io.more = c->rx.bytes >= NVME_TCP_COMMON;
	d->io.iov_count = bufq_iov(&d->data, d->io.iov, IO_IOV_MAX, &bytes);
	conn_io_begin(c, &d->data);
	io_submit(&d->io);
}

void nvme_part_room(struct nvme_command *d, size_t bytes, bool framed)
{
	struct nvme_queue *q = d->queue;
	struct worker *w = q->conn->worker;
	size_t align = d->io.mount ? MAX(d->io.mount->export->align, BLOCK_ALIGN) : BLOCK_ALIGN;
	struct view *v = NULL;

	if (framed && bytes)
		v = conn_room(w, q->terms.data_offset, bytes + NVME_TCP_DIGEST + NVME_TCP_RSP_MAX,
			      align);
	d->framed = v != NULL;
	if (v) {
		v->len = (uint32_t)bytes;
		bufq_push(&d->data, v);
	}
	if (d->data.bytes < bytes)
		block_add_chunks(w, &d->data, bytes, 0);
	if (unlikely(d->data.bytes < bytes)) {
		struct block_rest rest = nvme_rest(d);

		block_free_end(w, &d->data, block_part_bytes(&rest, d->data.bytes));
	}
}

/* All data asked for has been received and written: asks for more, or completes the command. */
void nvme_data_next(struct nvme_command *d)
{
	if (d->queue->receiving == d || d->got_bytes < d->asked_bytes)
		d->step = NVME_RECEIVE;
	else if (d->status || (d->got_bytes == d->length && !d->verb->start))
		nvme_command_set(d, NVME_REPLY);
	else if (d->got_bytes < d->length)
		nvme_command_set(d, NVME_ASK);
	else
		nvme_command_start(d);
}

static void part_written(struct nvme_command *d, int result)
{
	struct conn *c = d->queue->conn;

	d->done_bytes += (uint32_t)d->io.length;
	bufq_drop(&c->worker->pool, &d->data, d->data.bytes);
	if (result < 0 && !d->status)
		d->status = nvme_status_of(-result, d->sqe.opcode);
	nvme_data_next(d);
	if (!d->queue->running)
		conn_ready(c);
}

static void trim_next(struct nvme_command *d);

static void part_done(struct io *io, int result)
{
	struct nvme_command *d = container_of(io, struct nvme_command, io);
	struct conn *c = d->queue->conn;

	conn_io_end(c, &d->data);
	if (io->kind == IO_write)
		part_written(d, result);
	else if (io->kind == IO_trim && (result == 0 || result == -EOPNOTSUPP))
		trim_next(d); /* a hint: it succeeds even if deallocation is not supported */
	else if (io->kind == IO_read && result == 0)
		nvme_command_set(d, NVME_SEND);
	else
		nvme_command_end(d, nvme_status_of(-result, d->sqe.opcode));
}

/* ---- Data for the host ---- */

/* Copies a part of d->page, and zeros after its end. */
static void fill_from_page(struct nvme_command *d)
{
	uint32_t at = d->done_bytes;

	for (const struct view *v = d->data.head; v; at += v->len, v = v->next) {
		uint32_t n = at < d->page_bytes ? MIN(v->len, d->page_bytes - at) : 0;

		if (n)
			memcpy(v->data, d->page + at, n);
		memset(v->data + n, 0, v->len - n);
	}
}

bool nvme_command_fill(struct nvme_command *d)
{
	struct conn *c = d->queue->conn;
	uint32_t left = d->length - d->done_bytes;
	const struct mount *m = d->io.mount;

	if (block_read_must_wait(c, m ? m->export : NULL, d->done_bytes > 0))
		return false;
	nvme_part_room(d, conn_read_share(c, MIN(left, BLOCK_PART_MAX), nvme_rest(d).unit), true);
	if (d->data.bytes == 0) {
		conn_wait_for_memory(c);
		return false;
	}
	if (!d->page) {
		nvme_submit_to_store(d, IO_read, d->offset + d->done_bytes, d->data.bytes);
		return true;
	}
	fill_from_page(d);
	nvme_command_set(d, NVME_SEND);
	return true;
}

/* ---- Steps ---- */

/* Tries all steps on `todo`.  A command without memory for its step must not delay the others,
 * which may hold the memory: it is put back on `todo` at the end. */
void nvme_commands_run(struct nvme_queue *q)
{
	bool (*const *steps)(struct nvme_command * d) = q->transport->steps;
	struct nvme_list waiting = STAILQ_HEAD_INITIALIZER(waiting);

	while (!STAILQ_EMPTY(&q->todo) && q->phase != NVME_PHASE_ENDING &&
	       !(q->conn->flags & CONN_CLOSING)) {
		struct nvme_command *d = STAILQ_FIRST(&q->todo);

		STAILQ_REMOVE_HEAD(&q->todo, link);
		if (!steps[d->step](d))
			STAILQ_INSERT_TAIL(&waiting, d, link);
	}
	STAILQ_CONCAT(&waiting, &q->todo);
	STAILQ_CONCAT(&q->todo, &waiting);
}

/* ---- I/O ---- */

static struct mount *mount_of(const struct nvme_command *d)
{
	const struct worker *w = d->queue->conn->worker;
	uint32_t nsid = d->sqe.nsid;

	return nsid > 0 && nsid <= w->mount_count ? &w->mounts[nsid - 1] : NULL;
}

static uint32_t block_bytes(const struct nvme_target *t, const struct export *e)
{
	return MAX(t->block_size ? t->block_size : NVME_BLOCK, e->align);
}

struct block_rest nvme_rest(const struct nvme_command *d)
{
	const struct mount *m = d->io.mount;

	return (struct block_rest){
		.offset = d->offset + d->done_bytes,
		.bytes = d->length - d->done_bytes,
		.unit = m ? block_bytes(d->queue->conn->worker->shared, m->export) : 1,
	};
}

struct nvme_namespace nvme_namespace_of(const struct nvme_target *t, const struct export *e)
{
	uint8_t shift = (uint8_t)__builtin_ctz(block_bytes(t, e));

	return (struct nvme_namespace){
		.blocks = e->size >> shift,
		.block_shift = shift,
		.read_only = e->read_only,
		.transfer_max = t->transfer_max,
	};
}

static uint16_t io_check(struct nvme_command *d)
{
	struct mount *m = mount_of(d);
	struct nvme_namespace n = { 0 };
	struct nvme_range range;
	uint16_t status;

	if (m)
		n = nvme_namespace_of(d->queue->conn->worker->shared, m->export);
	status = nvme_check_io(&d->sqe, m ? &n : NULL, &range);
	if (status)
		return status;
	d->io.mount = m;
	d->offset = range.offset;
	if (nvme_direction(&d->sqe) != NVME_NO_DATA)
		d->length = d->sqe.sgl.length;
	if (nvme_is_fua(&d->sqe) && d->sqe.opcode != NVME_DSM)
		d->io.flags = IO_FUA;
	return NVME_SUCCESS;
}

static uint16_t io_fill(struct nvme_command *d)
{
	nvme_command_set(d, NVME_FILL);
	return NVME_STARTED;
}

static uint16_t io_flush(struct nvme_command *d)
{
	nvme_submit_to_store(d, IO_flush, 0, 0);
	return NVME_STARTED;
}

static struct nvme_namespace namespace_of(const struct nvme_command *d)
{
	return nvme_namespace_of(d->queue->conn->worker->shared, d->io.mount->export);
}

static uint16_t io_zero(struct nvme_command *d)
{
	uint64_t blocks = (d->sqe.cdw12 & 0xffff) + 1ULL;

	if (!nvme_may_deallocate(&d->sqe))
		d->io.flags |= IO_NO_HOLE;
	nvme_submit_to_store(d, IO_write_zeroes, d->offset, blocks << namespace_of(d).block_shift);
	return NVME_STARTED;
}

/* Submits the next range that is not empty. */
static void trim_next(struct nvme_command *d)
{
	struct nvme_namespace n = namespace_of(d);
	struct nvme_range range = { 0 };

	while (d->done_bytes < nvme_dsm_ranges(&d->sqe) * NVME_DSM_RANGE && range.length == 0) {
		nvme_check_dsm(d->page, d->done_bytes / NVME_DSM_RANGE, &n, &range);
		d->done_bytes += NVME_DSM_RANGE;
	}
	if (range.length == 0)
		nvme_command_end(d, NVME_SUCCESS);
	else
		nvme_submit_to_store(d, IO_trim, range.offset, range.length);
}

static uint16_t io_trim(struct nvme_command *d)
{
	struct nvme_namespace n = namespace_of(d);
	struct nvme_range range;
	uint16_t status = NVME_SUCCESS;

	for (unsigned i = 0; i < nvme_dsm_ranges(&d->sqe) && !status; i++)
		status = nvme_check_dsm(d->page, i, &n, &range);
	if (status || !nvme_dsm_deallocates(&d->sqe))
		return status;
	trim_next(d);
	return NVME_STARTED;
}

/* The most frequent first. */
static const struct nvme_verb io_verbs[] = {
	{ NVME_READ, NVME_OP_read, io_check, io_fill },
	{ NVME_WRITE, NVME_OP_write, io_check, NULL /* its parts are written as they arrive */ },
	{ NVME_FLUSH, NVME_OP_flush, io_check, io_flush },
	{ NVME_WRITE_ZEROES, NVME_OP_write_zeroes, io_check, io_zero },
	{ NVME_DSM, NVME_OP_trim, io_check, io_trim },
};
const struct nvme_verbs nvme_io_verbs = { io_verbs, ARRAY_SIZE(io_verbs) };
