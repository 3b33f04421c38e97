/* Service `nbd`: requests, from their header to their reply.  See nbd.h. */
#include <string.h>

#include "batch.h"
#include "conn_op.h"
#include "nbd.h"

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

/* Takes the next request from the input; false: it is incomplete, or cannot be served yet. */
static bool nbd_next_request(struct conn *c)
{
	struct nbd_conn *n = nbd_of(c);
	size_t bytes = nbd_request_bytes(n->terms.mode);
	uint8_t header[NBD_REQUEST_EXTENDED];
	struct nbd_command *d;

	if (c->rx.bytes < bytes || block_is_full(c))
		return false;
	d = nbd_command_get(c);
	if (!d)
		return false;
	bufq_read(&c->worker->pool, &c->rx, header, bytes);
	if (nbd_parse_request(header, n->terms.mode, &d->request) < 0)
		nbd_end(c, CONN_END_PROTOCOL);
	else if (d->request.type == NBD_CMD_DISC)
		nbd_end(c, CONN_END_PEER);
	if (n->phase == NBD_PHASE_ENDING)
		nbd_command_set(d, COMMAND_FREE);
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
