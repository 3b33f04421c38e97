/* Service `nbd`: requests, from their header to their reply.  See nbd.h.
 *
 * A command is served in parts, one at a time; commands overlap and finish in any order.  A write
 * hands the chunks that were received to the store: write_next_part(), submit_to_store(), then
 * io_submit() of core/io.h.  A read fills memory that begins with room for
 * the reply's header, so that the reply needs no further memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "conn_op.h"
#include "nbd.h"

/* ---- Dropped input, and partial messages ---- */

bool nbd_drop(struct conn *c)
{
	struct nbd_conn *n = nbd_of(c);
	size_t bytes = (size_t)MIN(n->drop_bytes, c->rx.bytes);

	bufq_drop(&c->worker->pool, &c->rx, bytes);
	n->drop_bytes -= bytes;
	return n->drop_bytes == 0;
}

int nbd_save_partial(struct conn *c, size_t whole)
{
	struct nbd_conn *n = nbd_of(c);
	size_t bytes = MIN(whole - n->partial_bytes, c->rx.bytes);

	if (bytes == 0)
		return 0;
	if (!n->partial)
		n->partial = malloc(whole);
	if (!n->partial)
		return -ENOMEM;
	bufq_read(&c->worker->pool, &c->rx, n->partial + n->partial_bytes, bytes);
	n->partial_bytes += bytes;
	return 0;
}

void nbd_read_partial(struct conn *c, void *to, size_t bytes)
{
	struct nbd_conn *n = nbd_of(c);
	size_t partial = MIN(n->partial_bytes, bytes);

	if (partial) {
		memcpy(to, n->partial, partial);
		n->partial_bytes -= partial;
		memmove(n->partial, n->partial + partial, n->partial_bytes);
	}
	if (n->partial_bytes == 0) {
		free(n->partial);
		n->partial = NULL;
	}
	bufq_read(&c->worker->pool, &c->rx, (uint8_t *)to + partial, bytes - partial);
}

void nbd_expect_input(struct conn *c, uint64_t timeout_ns)
{
	if (!conn_await_input(c, timeout_ns, BLOCK_PART_MAX))
		conn_close(c, CONN_END_PROTOCOL);
}

void nbd_end(struct conn *c, enum conn_end end)
{
	nbd_of(c)->phase = NBD_PHASE_ENDING;
	nbd_of(c)->end = end;
}

/* ---- Commands ---- */

int nbd_commands_init(struct conn *c)
{
	struct nbd_conn *n = nbd_of(c);

	n->command_count = (unsigned)n->mount->export->options->queue_depth;
	n->commands = calloc(n->command_count, sizeof(*n->commands));
	for (unsigned i = 0; i < ARRAY_SIZE(n->in); i++)
		TAILQ_INIT(&n->in[i]);
	return n->commands ? 0 : -ENOMEM;
}

static void part_drop(struct nbd_command *d)
{
	struct pool *p = &d->conn->worker->pool;

	if (d->data.bytes > 0)
		bufq_drop(p, &d->data, d->data.bytes);
	if (d->header)
		view_free(p, d->header);
	d->header = NULL;
}

void nbd_commands_free(struct conn *c)
{
	struct nbd_conn *n = nbd_of(c);

	for (unsigned i = 0; i < n->used; i++)
		part_drop(&n->commands[i]);
	free(n->commands);
}

/* Slots of the array that were never used are taken only when no used one is free: few slots then
 * stay in the cache.  NULL: queue-depth commands are busy. */
static struct nbd_command *command_get(struct conn *c)
{
	struct nbd_conn *n = nbd_of(c);
	struct nbd_command *d = TAILQ_FIRST(&n->in[COMMAND_FREE]);

	if (!d && n->used == n->command_count)
		return NULL;
	if (d)
		TAILQ_REMOVE(&n->in[COMMAND_FREE], d, link);
	else
		d = &n->commands[n->used++];
	n->busy++;
	d->state = COMMAND_TAKEN;
	d->conn = c;
	d->done_bytes = 0;
	d->start_ns = 0;
	d->io.mount = n->mount;
	d->io.conn = c;
	return d;
}

#define TO(state) (1U << (state))
enum { COMMAND_LISTED = TO(COMMAND_FREE) | TO(COMMAND_STALLED) | TO(COMMAND_FINISHED) };

/* Changes the state, which no other function does.  The table lists the states that may follow each
 * state. command_get() alone takes a free command.
 *
 * A command in a state of COMMAND_LISTED is on the list of that state.  In other states it is
 * reached by its caller (TAKEN), by n->payload (RECEIVING, DROPPING), or by its io, which the store
 * holds (IO).  A command that becomes COMMAND_FINISHED has the connection run; a COMMAND_FREE one
 * holds no memory. */
static void command_set(struct nbd_command *d, enum command_state state)
{
	static const uint8_t follows[COMMAND_STATE_COUNT] = {
		[COMMAND_TAKEN] = TO(COMMAND_RECEIVING) | TO(COMMAND_DROPPING) |
				  TO(COMMAND_STALLED) | TO(COMMAND_IO) | TO(COMMAND_FREE),
		[COMMAND_RECEIVING] = TO(COMMAND_IO),
		[COMMAND_DROPPING] = TO(COMMAND_FINISHED),
		[COMMAND_STALLED] = TO(COMMAND_STALLED) | TO(COMMAND_IO),
		[COMMAND_IO] = TO(COMMAND_FINISHED),
		[COMMAND_FINISHED] = TO(COMMAND_RECEIVING) | TO(COMMAND_DROPPING) |
				     TO(COMMAND_STALLED) | TO(COMMAND_IO) | TO(COMMAND_FREE),
	};
	struct nbd_conn *n = nbd_of(d->conn);

	assert(follows[d->state] & TO(state));
	if (TO(d->state) & COMMAND_LISTED)
		TAILQ_REMOVE(&n->in[d->state], d, link);
	d->state = state;
	assert(!n->alone || n->busy == 1);
	switch (state) {
	case COMMAND_FREE:
		part_drop(d);
		if (n->alone == d)
			n->alone = NULL;
		n->busy--;
		TAILQ_INSERT_HEAD(&n->in[state], d, link); /* used next, as it is in the cache */
		break;
	case COMMAND_RECEIVING:
	case COMMAND_DROPPING:
		n->payload = d;
		break;
	case COMMAND_FINISHED:
		if (!n->running)
			conn_ready(d->conn);
		/* fall through */
	case COMMAND_STALLED:
		TAILQ_INSERT_TAIL(&n->in[state], d, link);
		break;
	default:
		break;
	}
}

/* To be called when the command's request has arrived, with all of its payload. */
static void command_arrived(struct nbd_command *d)
{
	const struct worker *w = d->conn->worker;

	d->start_ns = w->turn.sampling ? w->turn.now_ns : 0;
	nbd_of(d->conn)->arrived++;
	nbd_of(d->conn)->arrived_bytes += d->request.length;
	conn_set_deadline(d->conn, 0); /* the next payload has its own deadline */
}

static uint64_t command_left(const struct nbd_command *d)
{
	return d->request.length - d->done_bytes;
}

/* ---- A part ---- */

/* The views of d->data are the command's again.  It may run within io_submit(), that is, within the
 * service's run(): n->running tells command_set() not to make the connection ready then. */
static void part_done(struct io *io, int result)
{
	struct nbd_command *d = container_of(io, struct nbd_command, io);

	conn_io_end(d->conn, &d->data);
	d->result = result;
	command_set(d, COMMAND_FINISHED);
}

/* From here to part_done() the views of d->data belong to the store.  The state is set before the
 * request is submitted, as the request may have ended when io_submit() returns. */
static void submit_to_store(struct nbd_command *d, enum io_kind kind, uint64_t bytes)
{
	d->io.done = part_done;
	d->io.kind = (uint8_t)kind;
	d->io.offset = d->request.offset + d->done_bytes;
	d->io.length = bytes;
	d->io.more = d->conn->rx.bytes >= NBD_REQUEST;
	command_set(d, COMMAND_IO);
	conn_io_begin(d->conn, &d->data);
	io_submit(&d->io);
}

/* Allocates d->data: up to `bytes`, in whole blocks of the store, as much as the pool has, with
 * room for a header of `head` bytes before it, or in d->header.  A small part shares a chunk with
 * others, a large one has its own chunks.  Holds nothing if the pool is exhausted. */
static void part_room(struct nbd_command *d, size_t head, size_t bytes)
{
	struct worker *w = d->conn->worker;
	struct pool *p = &w->pool;
	size_t align = MAX(d->io.mount->export->align, BLOCK_ALIGN);
	size_t skip = (head + align - 1) & ~(align - 1);
	struct view *v;

	if (bytes > 0 && skip >= p->chunk_size) {
		d->header = conn_room(w, 0, head, 1);
		bytes = d->header ? bytes : 0;
		head = skip = 0;
	}
	v = bytes > 0 ? conn_room(w, head, bytes, align) : NULL;
	if (v)
		bufq_push(&d->data, v);
	if (d->data.bytes < bytes) {
		block_add_chunks(w, &d->data, bytes, skip);
		block_free_end(w, &d->data,
			       d->data.bytes & ~((size_t)d->io.mount->export->align - 1));
	}
	if (d->data.bytes == 0)
		part_drop(d);
}

static void part_iov(struct nbd_command *d)
{
	size_t bytes;

	d->io.iov_count = bufq_iov(&d->data, d->io.iov, IO_IOV_MAX, &bytes);
}

/* ---- Payload of refused requests ---- */

/* The command has failed.  The reply is sent only after the rest of its payload, payload_left
 * bytes, has been received and dropped: clients cannot handle an earlier one (seen with
 * libnbd 1.14). */
static void command_fail(struct nbd_command *d, uint32_t error, const char *reason,
			 uint64_t payload_left)
{
	d->refusal = error;
	d->reason = reason;
	part_drop(d);
	nbd_of(d->conn)->drop_bytes = payload_left;
	command_set(d, COMMAND_DROPPING);
}

/* ---- Replies ---- */

/* Sends a reply without payload; false: there is no memory for it now. */
static bool command_reply(struct nbd_command *d, uint32_t error, const char *text)
{
	struct conn *c = d->conn;
	uint8_t reply[NBD_REPLY_MAX];
	size_t bytes =
		nbd_build_reply(reply, nbd_of(c)->terms.structured, &d->request, error, text);

	part_drop(d); /* freed first: this or another reply may wait for memory */
	if (conn_write(c, reply, bytes) < 0)
		return false;
	conn_op_reply(c, d->operation, d->start_ns);
	if (error)
		stat_add(c->worker->stats.operations[d->operation].errors, 1);
	command_set(d, COMMAND_FREE);
	return true;
}

/* ---- Reads ---- */

static void read_start(struct nbd_command *d)
{
	struct conn *c = d->conn;
	struct nbd_conn *n = nbd_of(c);
	uint64_t left = command_left(d);

	if (block_read_must_wait(c, n->mount->export, d->done_bytes > 0)) {
		command_set(d, COMMAND_STALLED);
		return;
	}
	part_room(d, d->done_bytes && !n->terms.structured ? 0 : NBD_DATA_HEADER_MAX,
		  conn_read_share(c, (size_t)MIN(left, BLOCK_PART_MAX), n->mount->export->align));
	if (d->data.bytes == 0) {
		conn_wait_for_memory(c);
		command_set(d, COMMAND_STALLED);
		return;
	}
	if (!n->terms.structured && d->data.bytes < left && n->alone != d) {
		/* A simple reply has one header: its parts must follow each other on the wire. */
		if (n->busy > 1) {
			part_drop(d);
			command_set(d, COMMAND_STALLED);
			return;
		}
		n->alone = d;
	}
	part_iov(d);
	submit_to_store(d, IO_read, d->data.bytes);
}

/* Queues the header, in the memory that part_room() reserved, and the part. */
static void read_send(struct nbd_command *d, bool last)
{
	struct conn *c = d->conn;
	bool structured = nbd_of(c)->terms.structured;
	uint64_t offset = structured ? d->io.offset : d->request.offset;
	uint32_t length = (uint32_t)(structured ? d->io.length : d->request.length);
	bool apart = d->header != NULL;
	struct view *v = apart ? d->header : d->data.head;
	uint8_t header[NBD_DATA_HEADER_MAX];
	size_t bytes = nbd_build_data(header, structured, &d->request, offset, length, last);

	if (apart) {
		v->len = (uint32_t)bytes;
		bufq_push(&c->tx, v);
		d->header = NULL;
	} else {
		v->data -= bytes;
		v->len += (uint32_t)bytes;
		d->data.bytes += bytes;
	}
	memcpy(v->data, header, bytes);
	bufq_splice(&c->tx, &d->data);
}

/* A part of a read has been read: sends it.  False: no memory for the reply now. */
static bool read_answer(struct nbd_command *d)
{
	struct conn *c = d->conn;
	const struct nbd_conn *n = nbd_of(c);
	bool first = d->done_bytes == 0, last;

	if (d->result < 0 && !n->terms.structured && !first) {
		/* a success header has been sent already, so no error can follow. */
		conn_close(c, CONN_END_ERROR);
		return true;
	}
	if (d->result < 0)
		return command_reply(d, nbd_error_of(d->result), "reading the export failed");
	d->done_bytes += d->io.length;
	last = command_left(d) == 0;
	if (n->terms.structured || first)
		read_send(d, last || !n->terms.structured);
	else
		bufq_splice(&c->tx, &d->data);
	if (!last) {
		command_set(d, COMMAND_STALLED); /* continues as the limit of this run allows */
		return true;
	}
	conn_op_reply(c, d->operation, d->start_ns);
	command_set(d, COMMAND_FREE);
	return true;
}

/* ---- Writes ---- */

/* The rest of the payload.  The logical block is the preferred block size that the client was sent.
 */
static struct block_rest write_rest(const struct nbd_command *d)
{
	return (struct block_rest){
		.offset = d->request.offset + d->done_bytes,
		.bytes = command_left(d),
		.unit = MAX(d->io.mount->export->align, NBD_BLOCK_PREFERRED),
	};
}

/* The number of payload bytes that may be written now; 0: wait for more. */
static size_t write_ready(const struct nbd_command *d, const struct block_rest *rest)
{
	const struct conn *c = d->conn;
	size_t arrived = nbd_of(c)->partial_bytes + c->rx.bytes;
	size_t want = (size_t)MIN(rest->bytes, BLOCK_PART_MAX);

	if (arrived < want && c->rx.views < IO_IOV_MAX && !block_input_is_held_up(c))
		return 0;
	return block_part_bytes(rest, MIN(arrived, want));
}

/* Nothing can be written yet.  While memory is short, a partial block moves out of the pool: there
 * it could block the receives of this or other clients. */
static void write_wait(struct conn *c, const struct block_rest *rest)
{
	if (block_input_is_held_up(c) && nbd_save_partial(c, rest->unit) < 0)
		conn_close(c, CONN_END_ERROR);
}

/* Moves a part of the payload from the input to d->data: its chunks as they are, or a copy where
 * the store needs alignment, or a block is in too many pieces.  Returns its bytes; 0: no memory. */
static size_t write_take(struct nbd_command *d, const struct block_rest *rest, size_t bytes)
{
	struct conn *c = d->conn;
	struct pool *p = &c->worker->pool;
	size_t views = 0;

	if (!nbd_of(c)->partial_bytes)
		views = block_bytes_without_copy(c, d->io.mount->export, rest, bytes);
	if (views) {
		bufq_take(p, &d->data, &c->rx, views);
		return views;
	}
	part_room(d, 0, bytes);
	block_free_end(c->worker, &d->data, block_part_bytes(rest, d->data.bytes));
	for (struct view *v = d->data.head; v; v = v->next)
		nbd_read_partial(c, v->data, v->len);
	stat_add(c->worker->stats.bytes_copied, d->data.bytes);
	return d->data.bytes;
}

/* Hands arrived payload to the store.  False: nothing can be written now. */
static bool write_next_part(struct nbd_command *d)
{
	struct conn *c = d->conn;
	struct nbd_conn *n = nbd_of(c);
	struct block_rest rest = write_rest(d);
	size_t bytes;

	bytes = write_ready(d, &rest);
	if (bytes == 0) {
		write_wait(c, &rest);
		return false;
	}
	bytes = write_take(d, &rest, bytes);
	if (bytes == 0) {
		conn_wait_for_memory(c);
		return false;
	}
	if (bytes == rest.bytes) {
		n->payload = NULL;
		command_arrived(d);
	}
	part_iov(d);
	submit_to_store(d, IO_write, bytes);
	return true;
}

/* A part of a write is done or has failed.  False: no memory for the reply now. */
static bool write_answer(struct nbd_command *d)
{
	static const char write_failed[] = "writing the export failed";
	bool whole = d->done_bytes + d->io.length == d->request.length;

	if (whole)
		return command_reply(d, nbd_error_of(d->result), d->result ? write_failed : NULL);
	if (d->result < 0) {
		command_fail(d, nbd_error_of(d->result), write_failed,
			     command_left(d) - d->io.length);
		return true;
	}
	d->done_bytes += d->io.length;
	part_drop(d);
	command_set(d, COMMAND_RECEIVING);
	return true;
}

/* ---- Other commands ---- */

enum { STATUS_REPLY_MAX = NBD_STATUS_HEADER + IO_EXTENTS_MAX * NBD_STATUS_EXTENT };

/* Allocates one piece of memory for the extents, and later the reply. */
static void status_start(struct nbd_command *d)
{
	size_t bytes = MAX(STATUS_REPLY_MAX, IO_EXTENTS_MAX * sizeof(struct io_extent));
	struct view *v = conn_room(d->conn->worker, 0, bytes, BLOCK_ALIGN);

	if (!v) {
		conn_wait_for_memory(d->conn);
		command_set(d, COMMAND_STALLED);
		return;
	}
	bufq_push(&d->data, v);
	d->io.extents = (struct io_extent *)(void *)v->data;
	submit_to_store(d, IO_block_status, d->request.length);
}

static bool status_answer(struct nbd_command *d)
{
	struct conn *c = d->conn;
	struct nbd_extent extents[IO_EXTENTS_MAX];
	struct view *v = d->data.head;

	if (d->result < 0)
		return command_reply(d, nbd_error_of(d->result), "asking the file system failed");
	for (unsigned i = 0; i < d->io.extent_count; i++)
		extents[i] = (struct nbd_extent){
			.length = d->io.extents[i].length,
			.state = d->io.extents[i].hole ? NBD_STATE_HOLE | NBD_STATE_ZERO : 0,
		};
	v->len =
		(uint32_t)nbd_build_block_status(v->data, &d->request, extents, d->io.extent_count);
	d->data.bytes = v->len;
	bufq_splice(&c->tx, &d->data);
	conn_op_reply(c, d->operation, d->start_ns);
	command_set(d, COMMAND_FREE);
	return true;
}

static bool other_answer(struct nbd_command *d)
{
	return command_reply(d, nbd_error_of(d->result), d->result ? strerror(-d->result) : NULL);
}

/* By request type.  answer() returns false when there is no memory for the reply now. */
static const struct {
	enum io_kind kind;
	bool (*answer)(struct nbd_command *d);
} nbd_commands[] = {
	[NBD_CMD_READ] = { IO_read, read_answer },
	[NBD_CMD_WRITE] = { IO_write, write_answer },
	[NBD_CMD_FLUSH] = { IO_flush, other_answer },
	[NBD_CMD_TRIM] = { IO_trim, other_answer },
	[NBD_CMD_WRITE_ZEROES] = { IO_write_zeroes, other_answer },
	[NBD_CMD_BLOCK_STATUS] = { IO_block_status, status_answer },
};

static bool command_answer(struct nbd_command *d)
{
	if (d->refusal)
		return command_reply(d, d->refusal, d->reason);
	return nbd_commands[d->request.type].answer(d);
}

/* Starts a command without payload, or stalls it. */
static void command_start_io(struct nbd_command *d)
{
	if (d->request.type == NBD_CMD_READ)
		read_start(d);
	else if (d->request.type == NBD_CMD_BLOCK_STATUS)
		status_start(d);
	else
		submit_to_store(d, nbd_commands[d->request.type].kind, d->request.length);
}

static void command_start(struct nbd_command *d)
{
	struct nbd_conn *n = nbd_of(d->conn);
	const struct nbd_request *r = &d->request;

	d->operation = NBD_OPERATION_INVALID;
	if (r->type < ARRAY_SIZE(nbd_commands) && nbd_commands[r->type].answer)
		d->operation = (uint8_t)nbd_commands[r->type].kind;
	d->refusal = nbd_check_request(r, &n->terms, &d->reason);
	d->io.flags = (uint8_t)((r->flags & NBD_CMD_FLAG_FUA ? IO_FUA : 0) |
				(r->flags & NBD_CMD_FLAG_NO_HOLE ? IO_NO_HOLE : 0));
	if (d->refusal) {
		command_fail(d, d->refusal, d->reason, r->payload);
	} else if (r->type == NBD_CMD_WRITE) {
		command_set(d, COMMAND_RECEIVING);
	} else {
		command_arrived(d);
		command_start_io(d);
	}
}

/* ---- Input ---- */

/* Drops payload of a refused request; false: more is to come. */
static bool command_drop_payload(struct nbd_command *d)
{
	if (!nbd_drop(d->conn))
		return false;
	nbd_of(d->conn)->payload = NULL;
	command_arrived(d);
	command_set(d, COMMAND_FINISHED);
	return true;
}

/* Takes the next request from the input; false: it is incomplete, or cannot be served yet. */
static bool nbd_next_request(struct conn *c)
{
	struct nbd_conn *n = nbd_of(c);
	uint8_t header[NBD_REQUEST];
	struct nbd_command *d;

	if (c->rx.bytes < sizeof(header) || block_conn_is_full(c))
		return false;
	d = command_get(c);
	if (!d)
		return false;
	bufq_read(&c->worker->pool, &c->rx, header, sizeof(header));
	if (nbd_parse_request(header, &d->request) < 0)
		nbd_end(c, CONN_END_PROTOCOL);
	else if (d->request.type == NBD_CMD_DISC)
		nbd_end(c, CONN_END_PEER);
	if (n->phase == NBD_PHASE_ENDING)
		command_set(d, COMMAND_FREE);
	else
		command_start(d);
	return true;
}

/* Retries the first stalled command; false: it still cannot start. */
static bool nbd_retry_stalled(struct nbd_conn *n)
{
	struct nbd_command *last = TAILQ_LAST(&n->in[COMMAND_STALLED], nbd_list), *d;

	do {
		d = TAILQ_FIRST(&n->in[COMMAND_STALLED]);
		command_start_io(d);
	} while (d != last);
	return nbd_has(n, COMMAND_FINISHED) || !nbd_has(n, COMMAND_STALLED);
}

/* One step; false: nothing can be done until something finishes, is sent, or arrives. */
static bool nbd_step(struct conn *c)
{
	struct nbd_conn *n = nbd_of(c);

	if (nbd_has(n, COMMAND_STALLED))
		return nbd_retry_stalled(n);
	if (n->alone)
		return nbd_has(n, COMMAND_FINISHED);
	if (n->phase != NBD_PHASE_TRANSMISSION)
		return false;
	if (!n->payload)
		return nbd_next_request(c);
	if (n->payload->state == COMMAND_DROPPING)
		return command_drop_payload(n->payload);
	return n->payload->state == COMMAND_RECEIVING && write_next_part(n->payload);
}

/* A command without memory for its answer must not block another, which may hold that memory. */
static void nbd_answer_finished(struct conn *c)
{
	struct nbd_list *finished = &nbd_of(c)->in[COMMAND_FINISHED];
	struct nbd_command *waits = NULL, *d; /* the last one that waits for memory */

	while (!(c->flags & CONN_CLOSING)) {
		d = waits ? TAILQ_NEXT(waits, link) : TAILQ_FIRST(finished);
		if (!d)
			break;
		if (!command_answer(d))
			waits = d;
	}
	if (waits)
		conn_wait_for_memory(c);
}

/* Is a request incomplete, so that only the client can continue it? */
static bool nbd_request_is_partial(const struct conn *c)
{
	const struct nbd_conn *n = nbd_of(c);

	if (n->phase != NBD_PHASE_TRANSMISSION || nbd_has(n, COMMAND_STALLED) ||
	    (c->flags & (CONN_NO_MEMORY | CONN_READY)))
		return false;
	if (n->payload)
		return n->payload->state == COMMAND_RECEIVING ||
		       n->payload->state == COMMAND_DROPPING;
	return c->rx.bytes > 0 && n->busy == 0 && !block_conn_is_full(c);
}

void nbd_commands_run(struct conn *c)
{
	struct nbd_conn *n = nbd_of(c);
	int64_t limit = conn_run_begin(c);

	n->running = true;
	n->arrived = 0;
	n->arrived_bytes = 0;
	do
		nbd_answer_finished(c);
	while (conn_goes_on(c, &limit) && nbd_step(c));
	n->running = false;
	batch_requests(c->worker, n->arrived, n->arrived_bytes);
	if (nbd_request_is_partial(c))
		nbd_expect_input(c, NBD_REQUEST_NS);
	else
		conn_set_deadline(c, 0);
}
