/* Service `nbd`: requests, their I/O, their replies.  See nbd.h.
 *
 * A command is served in parts, one at a time; commands overlap and finish in any order.  */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "command.h"

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

void nbd_commands_free(struct conn *c)
{
	struct nbd_conn *n = nbd_of(c);

	for (unsigned i = 0; i < n->used; i++)
		nbd_part_drop(&n->commands[i]);
	free(n->commands);
}

/* A free command; NULL: queue-depth commands are being served. */
static struct nbd_command *command_get(struct conn *c)
{
	struct nbd_conn *n = nbd_of(c);
	struct nbd_command *d = TAILQ_FIRST(&n->in[COMMAND_FREE]);

	if (!d && n->used == n->command_count)
		return NULL;
	if (!d) {
		d = &n->commands[n->used++];
		TAILQ_INSERT_HEAD(&n->in[COMMAND_FREE], d, link);
	}
	d->conn = c;
	d->done_bytes = 0;
	d->start_ns = 0;
	d->io.mount = n->mount;
	d->io.conn = c;
	return d;
}

#define TO(state) (1U << (state))
enum { COMMAND_LISTED = TO(COMMAND_FREE) | TO(COMMAND_STALLED) | TO(COMMAND_FINISHED) };

void nbd_command_set(struct nbd_command *d, enum command_state state)
{
	static const uint8_t follows[COMMAND_STATE_COUNT] = {
		[COMMAND_FREE] = TO(COMMAND_RECEIVING) | TO(COMMAND_DROPPING) |
				 TO(COMMAND_STALLED) | TO(COMMAND_IO),
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
	n->busy += d->state == COMMAND_FREE;
	d->state = state;
	switch (state) {
	case COMMAND_FREE:
		nbd_part_drop(d);
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

void nbd_command_arrived(struct nbd_command *d)
{
	const struct worker *w = d->conn->worker;

	d->start_ns = w->turn.sampling ? w->turn.now_ns : 0;
	nbd_of(d->conn)->arrived++;
	nbd_of(d->conn)->arrived_bytes += d->request.length;
	conn_set_deadline(d->conn, 0); /* the next payload has its own deadline */
}

/* ---- A part ---- */

static void part_done(struct io *io, int result)
{
	struct nbd_command *d = container_of(io, struct nbd_command, io);

	conn_io_end(d->conn, &d->data);
	d->result = result;
	nbd_command_set(d, COMMAND_FINISHED);
}

void nbd_part_submit(struct nbd_command *d, enum io_kind kind, uint64_t bytes)
{
	d->io.done = part_done;
	d->io.kind = (uint8_t)kind;
	d->io.offset = d->request.offset + d->done_bytes;
	d->io.length = bytes;
	d->io.more = d->conn->rx.bytes >= NBD_REQUEST;
	nbd_command_set(d, COMMAND_IO);
	conn_io_begin(d->conn, &d->data);
	io_submit(&d->io);
}

void nbd_part_room(struct nbd_command *d, size_t head, size_t bytes)
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
		block_chunks(w, &d->data, bytes, skip);
		block_cut(w, &d->data, d->data.bytes & ~((size_t)d->io.mount->export->align - 1));
	}
	if (d->data.bytes == 0)
		nbd_part_drop(d);
}

void nbd_part_drop(struct nbd_command *d)
{
	struct pool *p = &d->conn->worker->pool;

	if (d->data.bytes > 0)
		bufq_drop(p, &d->data, d->data.bytes);
	if (d->header)
		view_free(p, d->header);
	d->header = NULL;
}

void nbd_part_iov(struct nbd_command *d)
{
	size_t bytes;

	d->io.iov_count = bufq_iov(&d->data, d->io.iov, IO_IOV_MAX, &bytes);
}

/* ---- Payload of refused requests ---- */

void nbd_command_fail(struct nbd_command *d, uint32_t error, const char *reason,
		      uint64_t payload_left)
{
	d->refusal = error;
	d->reason = reason;
	nbd_part_drop(d);
	nbd_of(d->conn)->drop_bytes = payload_left;
	nbd_command_set(d, COMMAND_DROPPING);
}

/* Drops payload of a refused request; false: more is to come. */
static bool command_drop_payload(struct nbd_command *d)
{
	if (!nbd_drop(d->conn))
		return false;
	nbd_of(d->conn)->payload = NULL;
	nbd_command_arrived(d);
	nbd_command_set(d, COMMAND_FINISHED);
	return true;
}

/* ---- Replies ---- */

bool nbd_command_reply(struct nbd_command *d, uint32_t error, const char *text)
{
	struct conn *c = d->conn;
	uint8_t reply[NBD_REPLY_MAX];
	size_t bytes = nbd_build_reply(reply, nbd_of(c)->terms.mode, &d->request, error, text);

	nbd_part_drop(d); /* freed first: this or another reply may wait for memory */
	if (conn_write(c, reply, bytes) < 0)
		return false;
	conn_op_reply(c, d->operation, d->start_ns);
	if (error)
		stat_add(c->worker->stats.operations[d->operation].errors, 1);
	nbd_command_set(d, COMMAND_FREE);
	return true;
}

/* ---- Other commands ---- */

enum { STATUS_REPLY_MAX = NBD_STATUS_HEADER_MAX + IO_EXTENTS_MAX * NBD_STATUS_EXTENT_MAX };

/* Allocates one piece of memory for the extents, and later the reply. */
static void status_start(struct nbd_command *d)
{
	size_t bytes = MAX(STATUS_REPLY_MAX, IO_EXTENTS_MAX * sizeof(struct io_extent));
	struct view *v = conn_room(d->conn->worker, 0, bytes, BLOCK_ALIGN);

	if (!v) {
		conn_wait_for_memory(d->conn);
		nbd_command_set(d, COMMAND_STALLED);
		return;
	}
	bufq_push(&d->data, v);
	d->io.extents = (struct io_extent *)(void *)v->data;
	nbd_part_submit(d, IO_block_status, d->request.length);
}

static bool status_answer(struct nbd_command *d)
{
	struct conn *c = d->conn;
	struct nbd_extent extents[IO_EXTENTS_MAX];
	struct view *v = d->data.head;

	if (d->result < 0)
		return nbd_command_reply(d, nbd_error_of(d->result),
					 "asking the file system failed");
	for (unsigned i = 0; i < d->io.extent_count; i++)
		extents[i] = (struct nbd_extent){
			.length = d->io.extents[i].length,
			.state = d->io.extents[i].hole ? NBD_STATE_HOLE | NBD_STATE_ZERO : 0,
		};
	v->len = (uint32_t)nbd_build_block_status(v->data, nbd_of(c)->terms.mode, &d->request,
						  extents, d->io.extent_count);
	d->data.bytes = v->len;
	bufq_splice(&c->tx, &d->data);
	conn_op_reply(c, d->operation, d->start_ns);
	nbd_command_set(d, COMMAND_FREE);
	return true;
}

static bool other_answer(struct nbd_command *d)
{
	return nbd_command_reply(d, nbd_error_of(d->result),
				 d->result ? strerror(-d->result) : NULL);
}

/* By request type.  answer() returns false when there is no memory for the reply now. */
static const struct {
	enum io_kind kind;
	bool (*answer)(struct nbd_command *d);
} nbd_commands[] = {
	[NBD_CMD_READ] = { IO_read, nbd_read_answer },
	[NBD_CMD_WRITE] = { IO_write, nbd_write_answer },
	[NBD_CMD_FLUSH] = { IO_flush, other_answer },
	[NBD_CMD_TRIM] = { IO_trim, other_answer },
	[NBD_CMD_CACHE] = { IO_cache, other_answer },
	[NBD_CMD_WRITE_ZEROES] = { IO_write_zeroes, other_answer },
	[NBD_CMD_BLOCK_STATUS] = { IO_block_status, status_answer },
};

static bool command_answer(struct nbd_command *d)
{
	if (d->refusal)
		return nbd_command_reply(d, d->refusal, d->reason);
	return nbd_commands[d->request.type].answer(d);
}

/* Starts a command without payload, or stalls it. */
static void command_start_io(struct nbd_command *d)
{
	if (d->request.type == NBD_CMD_READ)
		nbd_read_start(d);
	else if (d->request.type == NBD_CMD_BLOCK_STATUS)
		status_start(d);
	else
		nbd_part_submit(d, nbd_commands[d->request.type].kind, d->request.length);
}

static void command_start(struct nbd_command *d)
{
	struct nbd_conn *n = nbd_of(d->conn);
	const struct nbd_request *r = &d->request;

	d->operation = NBD_OPERATION_INVALID;
	if (r->type < ARRAY_SIZE(nbd_commands) && nbd_commands[r->type].answer)
		d->operation = (uint8_t)nbd_commands[r->type].kind;
	d->refusal = nbd_check_request(r, &n->terms, &d->reason);
	d->one_header = n->terms.mode == NBD_SIMPLE || (r->flags & NBD_CMD_FLAG_DF);
	d->io.flags = (uint8_t)((r->flags & NBD_CMD_FLAG_FUA ? IO_FUA : 0) |
				(r->flags & NBD_CMD_FLAG_NO_HOLE ? IO_NO_HOLE : 0) |
				(r->flags & NBD_CMD_FLAG_FAST_ZERO ? IO_FAST : 0));
	if (d->refusal) {
		nbd_command_fail(d, d->refusal, d->reason, r->payload);
	} else if (r->type == NBD_CMD_WRITE) {
		nbd_command_set(d, COMMAND_RECEIVING);
	} else {
		nbd_command_arrived(d);
		command_start_io(d);
	}
}

/* ---- Input ---- */

/* Takes the next request from the input; false: it is incomplete, or cannot be served yet. */
static bool nbd_next_request(struct conn *c)
{
	struct nbd_conn *n = nbd_of(c);
	size_t bytes = nbd_request_bytes(n->terms.mode);
	uint8_t header[NBD_REQUEST_EXTENDED];
	struct nbd_command *d;

	if (c->rx.bytes < bytes || block_is_full(c))
		return false;
	d = command_get(c);
	if (!d)
		return false;
	bufq_read(&c->worker->pool, &c->rx, header, bytes);
	if (nbd_parse_request(header, n->terms.mode, &d->request) < 0)
		nbd_end(c, CONN_END_PROTOCOL);
	else if (d->request.type == NBD_CMD_DISC)
		nbd_end(c, CONN_END_PEER);
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
	return n->payload->state == COMMAND_RECEIVING && nbd_write_go_on(n->payload);
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

/* Is a request incomplete, and are we waiting only for the client to send the rest? */
static bool nbd_owes_input(const struct conn *c)
{
	const struct nbd_conn *n = nbd_of(c);

	if (n->phase != NBD_PHASE_TRANSMISSION || nbd_has(n, COMMAND_STALLED) ||
	    (c->flags & (CONN_NO_MEMORY | CONN_READY)))
		return false;
	if (n->payload)
		return n->payload->state == COMMAND_RECEIVING ||
		       n->payload->state == COMMAND_DROPPING;
	return c->rx.bytes > 0 && n->busy == 0 && !block_is_full(c);
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
	if (nbd_owes_input(c))
		nbd_expect_input(c, NBD_REQUEST_NS);
	else
		conn_set_deadline(c, 0);
}
