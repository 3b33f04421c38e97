/* Service `nbd`: input; commands, memory and I/O of their parts, simple replies.  See nbd.h.
 *
 * A command is served in parts, one at a time; commands overlap and finish in any order.  */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "conn_op.h"
#include "nbd.h"

/* ---- Input that is dropped, or is kept outside the pool ---- */

bool nbd_drop(struct conn *c)
{
	struct nbd_conn *n = nbd_of(c);
	size_t bytes = (size_t)MIN(n->drop_bytes, c->rx.bytes);

	bufq_drop(&c->worker->pool, &c->rx, bytes);
	n->drop_bytes -= bytes;
	return n->drop_bytes == 0;
}

int nbd_begin(struct conn *c, size_t whole)
{
	struct nbd_conn *n = nbd_of(c);
	size_t bytes = MIN(whole - n->begun_bytes, c->rx.bytes);

	if (bytes == 0)
		return 0;
	if (!n->begun)
		n->begun = malloc(whole);
	if (!n->begun)
		return -ENOMEM;
	bufq_read(&c->worker->pool, &c->rx, n->begun + n->begun_bytes, bytes);
	n->begun_bytes += bytes;
	return 0;
}

void nbd_begun_read(struct conn *c, void *to, size_t bytes)
{
	struct nbd_conn *n = nbd_of(c);
	size_t begun = MIN(n->begun_bytes, bytes);

	if (begun) {
		memcpy(to, n->begun, begun);
		n->begun_bytes -= begun;
		memmove(n->begun, n->begun + begun, n->begun_bytes);
	}
	if (n->begun_bytes == 0) {
		free(n->begun);
		n->begun = NULL;
	}
	bufq_read(&c->worker->pool, &c->rx, (uint8_t *)to + begun, bytes - begun);
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

void nbd_commands_free(struct conn *c)
{
	struct nbd_conn *n = nbd_of(c);

	for (unsigned i = 0; i < n->used; i++)
		nbd_part_drop(&n->commands[i]);
	free(n->commands);
}

/* Slots of the array that were never used are taken only when no used one is free: few slots then
 * stay in the cache. */
struct nbd_command *nbd_command_get(struct conn *c)
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

/* The table says which state may follow which; an assertion stops any other change.  A free command
 * is taken by nbd_command_get() only.  A command is on the list of its state only if that is in
 * COMMAND_LISTED: in the other states it is reached by its caller (TAKEN), by n->payload
 * (RECEIVING, DROPPING), or by its io, which the store holds (IO). */
void nbd_command_set(struct nbd_command *d, enum command_state state)
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

/* The views of d->data are the command's again.  It may run within io_submit(), that is, within the
 * service's run(): n->running tells nbd_command_set() not to make the connection ready then. */
static void part_done(struct io *io, int result)
{
	struct nbd_command *d = container_of(io, struct nbd_command, io);

	conn_io_end(d->conn, &d->data);
	d->result = result;
	nbd_command_set(d, COMMAND_FINISHED);
}

/* From here to part_done() the views of d->data belong to the store.  The state is set before the
 * request is submitted, as the request may have ended when io_submit() returns. */
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
