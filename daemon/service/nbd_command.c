/* Service `nbd`: requests, their I/O, their replies.  See nbd_conn.h.
 *
 * A command is served in parts, one at a time; commands overlap and finish in any order.  A write
 * hands the chunks that were received to the store.  A read is filled into memory that begins with
 * room for the reply's header, so that its reply needs no memory more. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nbd_conn.h"

/* ---- Commands ---- */

/* What is under way holds as much as the connection may: its end will run us again. */
static bool nbd_is_full(const struct conn *c)
{
	const struct worker *w = c->worker;

	return conn_held_bytes(c) - c->rx.bytes >= w->held_max ||
	       conn_held_views(c) - c->rx.views >= w->views_max;
}

int nbd_commands_init(struct conn *c)
{
	struct nbd_conn *n = nbd_of(c);

	n->command_count = (unsigned)n->mount->export->options->queue_depth;
	n->commands = calloc(n->command_count, sizeof(*n->commands));
	n->last = &n->finished;
	return n->commands ? 0 : -ENOMEM;
}

void nbd_commands_free(struct conn *c)
{
	struct nbd_conn *n = nbd_of(c);

	for (unsigned i = 0; i < n->used; i++)
		bufq_drop(&c->worker->pool, &n->commands[i].data, n->commands[i].data.bytes);
	free(n->commands);
}

/* NULL: queue-depth of them are being served. */
static struct nbd_command *command_get(struct conn *c)
{
	struct nbd_conn *n = nbd_of(c);
	struct nbd_command *d = n->free;

	if (d)
		n->free = d->next;
	else if (n->used < n->command_count)
		d = &n->commands[n->used++];
	else
		return NULL;
	n->busy++;
	d->conn = c;
	d->done_bytes = 0;
	d->start_ns = 0;
	d->io.mount = n->mount;
	d->io.flags = 0;
	return d;
}

static void command_put(struct nbd_command *d)
{
	struct nbd_conn *n = nbd_of(d->conn);

	bufq_drop(&d->conn->worker->pool, &d->data, d->data.bytes);
	if (n->alone == d)
		n->alone = NULL;
	n->busy--;
	d->next = n->free;
	n->free = d;
}

static uint64_t command_left(const struct nbd_command *d)
{
	return d->request.length - d->done_bytes;
}

/* All of the request has arrived. */
static void command_arrived(struct nbd_command *d)
{
	const struct worker *w = d->conn->worker;

	d->start_ns = w->sampling ? w->now_ns : 0;
}

/* It is tried again, before anything new, when something has changed. */
static void command_stall(struct nbd_command *d)
{
	struct nbd_conn *n = nbd_of(d->conn);

	d->next = n->stalled;
	n->stalled = d;
}

/* It can be answered. */
static void command_finish(struct nbd_command *d)
{
	struct nbd_conn *n = nbd_of(d->conn);

	d->next = NULL;
	*n->last = d;
	n->last = &d->next;
	if (!n->running)
		conn_ready(d->conn);
}

/* ---- A part ---- */

static void part_done(struct io *io, int result)
{
	struct nbd_command *d = container_of(io, struct nbd_command, io);
	struct conn *c = d->conn;

	c->pending--;
	c->io_count--;
	c->io_bytes -= d->data.bytes;
	c->io_views -= d->data.views;
	d->result = result;
	command_finish(d);
}

static void part_submit(struct nbd_command *d, enum io_kind kind, uint64_t bytes)
{
	struct conn *c = d->conn;

	d->io.done = part_done;
	d->io.kind = (uint8_t)kind;
	d->io.offset = d->request.offset + d->done_bytes;
	d->io.length = bytes;
	c->pending++;
	c->io_count++;
	c->io_bytes += d->data.bytes;
	c->io_views += d->data.views;
	io_submit(&d->io);
}

/* Memory for `bytes`, behind room for `head` of them, as much as there is: a small part shares a
 * chunk with others, a large one has chunks of its own. */
static void part_room(struct nbd_command *d, size_t head, uint64_t bytes)
{
	struct worker *w = d->conn->worker;
	struct pool *p = &w->pool;
	size_t align = MAX(d->io.mount->export->align, NBD_ALIGN);
	struct view *v = bytes ? conn_room(w, head, bytes, align) : NULL;

	if (v)
		bufq_push(&d->data, v);
	while (d->data.bytes < bytes && d->data.views < IO_IOV_MAX) {
		struct chunk *k = chunk_get(p);
		size_t skip = (head + align - 1) & ~(align - 1);
		size_t n = MIN(p->chunk_size - skip, bytes - d->data.bytes);

		if (!k)
			break;
		bufq_push(&d->data, view_new(p, k, k->base + skip, (uint32_t)n));
		chunk_put(p, k); /* the view keeps it */
		head = 0;
	}
}

static void part_drop(struct nbd_command *d)
{
	bufq_drop(&d->conn->worker->pool, &d->data, d->data.bytes);
}

static void part_iov(struct nbd_command *d)
{
	size_t bytes;

	d->io.iov_count = bufq_iov(&d->data, d->io.iov, IO_IOV_MAX, &bytes);
}

/* ---- Payload that nobody wants ---- */

/* It has failed, which the client hears when nothing is left to come of its payload: clients take
 * an earlier reply for one to a request that they have never made (seen with libnbd 1.14). */
static void command_fail(struct nbd_command *d, uint32_t error, const char *reason,
			 uint64_t payload_left)
{
	struct nbd_conn *n = nbd_of(d->conn);

	d->refusal = error;
	d->reason = reason;
	part_drop(d);
	n->receiving = NULL;
	n->dropping = d;
	n->drop_bytes = payload_left;
}

/* Drops payload that nobody wants; false: more of it is to come. */
static bool command_drop_payload(struct conn *c)
{
	struct nbd_conn *n = nbd_of(c);
	struct nbd_command *d = n->dropping;

	if (!nbd_drop(c))
		return false;
	n->dropping = NULL;
	command_arrived(d);
	command_finish(d);
	return true;
}

/* ---- Replies ---- */

/* Sends a reply without payload; false: there is no memory for it now. */
static bool command_reply(struct nbd_command *d, uint32_t error, const char *text)
{
	struct conn *c = d->conn;
	uint8_t reply[NBD_REPLY_MAX];
	size_t bytes = nbd_build_reply(reply, nbd_of(c)->terms.mode, &d->request, error, text);

	if (conn_write(c, reply, bytes) < 0)
		return false;
	conn_op_reply(c, d->operation, d->start_ns);
	if (error)
		stat_add(c->worker->stats.operations[d->operation].errors, 1);
	command_put(d);
	return true;
}

/* ---- Reads ---- */

/* How much of `bytes` a read may take at a time; 0: wait.  Clients who do not read what they have
 * asked for may end up with all that reads may take.  What is left has to do for the input of the
 * others, for what is small, and for a chunk at a time to those who have read all. */
static uint64_t read_share(const struct conn *c, uint64_t bytes)
{
	const struct worker *w = c->worker;
	uint32_t small = w->pool.keep / 4;

	if (w->pool.free_count <= small)
		return 0;
	if (worker_chunks(w) > w->pool.keep + small)
		return MIN(MIN(bytes, NBD_PART_MAX), w->held_max);
	return MIN(bytes, MAX(w->pool.chunk_size / 2, nbd_of(c)->mount->export->align));
}

/* Chunks are short, and c has not yet read what was there for it: that comes first. */
static bool read_must_wait(const struct conn *c)
{
	const struct worker *w = c->worker;

	return worker_chunks(w) <= w->pool.keep + w->pool.keep / 4 &&
	       (c->io_count > 0 || c->tx.bytes > 0 || c->sending.bytes > 0);
}

static void read_start(struct nbd_command *d)
{
	struct conn *c = d->conn;
	struct nbd_conn *n = nbd_of(c);
	uint64_t left = command_left(d);

	if (read_must_wait(c) || (d->done_bytes > 0 && nbd_is_full(c))) {
		c->flags |= CONN_WATCH_TX;
		command_stall(d);
		return;
	}
	part_room(d, NBD_CHUNK_MAX, read_share(c, left));
	if (d->data.bytes == 0) {
		conn_starved(c);
		command_stall(d);
		return;
	}
	if (d->one_header && d->data.bytes < left && n->alone != d) {
		/* Its parts must follow each other on the wire. */
		if (n->busy > 1) {
			part_drop(d);
			command_stall(d);
			return;
		}
		n->alone = d;
	}
	part_iov(d);
	part_submit(d, IO_read, d->data.bytes);
}

static bool data_is_zero(const struct bufq *data)
{
	static const uint8_t zeros[16];

	for (const struct view *v = data->head; v; v = v->next) {
		size_t n = MIN(v->len, sizeof(zeros));

		if (memcmp(v->data, zeros, n) != 0 || memcmp(v->data, v->data + n, v->len - n) != 0)
			return false;
	}
	return true;
}

/* Sends a header, and the part behind it or, of a hole, not: in the memory that part_room() left
 * before the data. */
static void read_send(struct nbd_command *d, bool hole, bool last)
{
	struct conn *c = d->conn;
	enum nbd_mode mode = nbd_of(c)->terms.mode;
	uint64_t offset = d->one_header ? d->request.offset : d->io.offset;
	uint32_t length = (uint32_t)(d->one_header ? d->request.length : d->io.length);
	struct view *v = d->data.head;
	uint8_t header[NBD_CHUNK_MAX];
	size_t bytes;

	if (hole)
		bytes = nbd_build_hole(header, mode, &d->request, offset, length, last);
	else
		bytes = nbd_build_data(header, mode, &d->request, offset, length, last);
	v->data -= bytes;
	v->len += (uint32_t)bytes;
	d->data.bytes += bytes;
	memcpy(v->data, header, bytes);
	if (hole)
		bufq_take(&c->worker->pool, &c->tx, &d->data, bytes);
	else
		bufq_splice(&c->tx, &d->data);
	part_drop(d);
}

/* A part of a read is there. */
static bool read_answer(struct nbd_command *d)
{
	struct conn *c = d->conn;
	const struct nbd_conn *n = nbd_of(c);
	bool first = d->done_bytes == 0, last;

	if (d->result < 0 && d->one_header && !first) {
		conn_close(c, CONN_END_ERROR); /* the success of it was announced */
		return true;
	}
	if (d->result < 0)
		return command_reply(d, nbd_error_of(d->result), "reading the export failed");
	d->done_bytes += d->io.length;
	last = command_left(d) == 0;
	if (!d->one_header)
		read_send(d, n->mount->export->holes && data_is_zero(&d->data), last);
	else if (first)
		read_send(d, false, true);
	else
		bufq_splice(&c->tx, &d->data);
	if (!last) {
		read_start(d);
		return true;
	}
	conn_op_reply(c, d->operation, d->start_ns);
	command_put(d);
	return true;
}

/* ---- Writes ---- */

/* How much of the payload makes the next part; 0: wait for more of it. */
static uint64_t write_ready(const struct nbd_command *d)
{
	const struct conn *c = d->conn;
	uint64_t want = MIN(command_left(d), NBD_PART_MAX), have = 0;
	const struct view *v = c->rx.head;

	if (c->rx.bytes < want && c->rx.views < IO_IOV_MAX && !conn_is_full(c) &&
	    !c->worker->starved)
		return 0;
	for (unsigned i = 0; v && i < IO_IOV_MAX && have < want; i++, v = v->next)
		have += v->len;
	have = MIN(have, want);
	return have - have % d->io.mount->export->align;
}

/* Moves a part of the payload from the input to d->data: its chunks as they are, or a copy where
 * the store needs alignment.  Returns its bytes; 0: no memory. */
static uint64_t write_take(struct nbd_command *d, uint64_t bytes)
{
	struct conn *c = d->conn;
	struct pool *p = &c->worker->pool;

	if (d->io.mount->export->align == 1) {
		bufq_take(p, &d->data, &c->rx, bytes);
		return bytes;
	}
	part_room(d, 0, bytes);
	for (struct view *v = d->data.head; v; v = v->next)
		bufq_read(p, &c->rx, v->data, v->len);
	stat_add(c->worker->stats.bytes_copied, d->data.bytes);
	return d->data.bytes;
}

/* Hands what has arrived of the payload to the store; false: nothing can be done now. */
static bool write_go_on(struct nbd_command *d)
{
	struct conn *c = d->conn;
	struct nbd_conn *n = nbd_of(c);
	uint64_t bytes;

	if (d->data.bytes > 0) /* a part is under way */
		return false;
	bytes = write_ready(d);
	if (bytes == 0)
		return false;
	bytes = write_take(d, bytes);
	if (bytes == 0) {
		conn_starved(c);
		return false;
	}
	if (bytes == command_left(d)) {
		n->receiving = NULL;
		command_arrived(d);
	}
	part_iov(d);
	part_submit(d, IO_write, bytes);
	return true;
}

/* A part of a write is done, or has failed. */
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
	return true;
}

/* ---- What else there is ---- */

static bool status_start(struct nbd_command *d)
{
	size_t bytes = IO_EXTENTS_MAX * sizeof(struct io_extent);

	part_room(d, 0, bytes);
	if (d->data.bytes < bytes || d->data.views > 1) {
		part_drop(d);
		conn_starved(d->conn);
		command_stall(d);
		return false;
	}
	d->io.extents = (struct io_extent *)(void *)d->data.head->data;
	part_submit(d, IO_block_status, d->request.length);
	return true;
}

static bool status_answer(struct nbd_command *d)
{
	struct conn *c = d->conn;
	struct nbd_extent extents[IO_EXTENTS_MAX];
	uint8_t reply[NBD_STATUS_HEADER_MAX + IO_EXTENTS_MAX * NBD_STATUS_EXTENT_MAX];
	size_t bytes;

	if (d->result < 0)
		return command_reply(d, nbd_error_of(d->result), "asking the file system failed");
	for (unsigned i = 0; i < d->io.extent_count; i++)
		extents[i] = (struct nbd_extent){
			.length = d->io.extents[i].length,
			.state = d->io.extents[i].hole ? NBD_STATE_HOLE | NBD_STATE_ZERO : 0,
		};
	bytes = nbd_build_block_status(reply, nbd_of(c)->terms.mode, &d->request, extents,
				       d->io.extent_count);
	if (conn_write(c, reply, bytes) < 0)
		return false;
	conn_op_reply(c, d->operation, d->start_ns);
	command_put(d);
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
	[NBD_CMD_CACHE] = { IO_cache, other_answer },
	[NBD_CMD_WRITE_ZEROES] = { IO_write_zeroes, other_answer },
	[NBD_CMD_BLOCK_STATUS] = { IO_block_status, status_answer },
};

static bool command_answer(struct nbd_command *d)
{
	if (d->refusal)
		return command_reply(d, d->refusal, d->reason);
	return nbd_commands[d->request.type].answer(d);
}

/* Starts what needs no payload, or stalls it. */
static void command_start_io(struct nbd_command *d)
{
	if (d->request.type == NBD_CMD_READ)
		read_start(d);
	else if (d->request.type == NBD_CMD_BLOCK_STATUS)
		status_start(d);
	else
		part_submit(d, nbd_commands[d->request.type].kind, d->request.length);
}

static void command_start(struct nbd_command *d)
{
	struct nbd_conn *n = nbd_of(d->conn);
	const struct nbd_request *r = &d->request;

	command_arrived(d);
	d->operation = NBD_OPERATION_INVALID;
	if (r->type < ARRAY_SIZE(nbd_commands) && nbd_commands[r->type].answer)
		d->operation = (uint8_t)nbd_commands[r->type].kind;
	d->refusal = nbd_check_request(r, &n->terms, &d->reason);
	d->one_header = n->terms.mode == NBD_SIMPLE || (r->flags & NBD_CMD_FLAG_DF);
	d->io.flags = (uint8_t)((r->flags & NBD_CMD_FLAG_FUA ? IO_FUA : 0) |
				(r->flags & NBD_CMD_FLAG_NO_HOLE ? IO_NO_HOLE : 0) |
				(r->flags & NBD_CMD_FLAG_FAST_ZERO ? IO_FAST : 0));
	if (d->refusal) {
		command_fail(d, d->refusal, d->reason, r->payload);
	} else if (r->type == NBD_CMD_WRITE) {
		n->receiving = d;
	} else {
		command_start_io(d);
	}
}

/* ---- Input ---- */

/* Takes the next request from the input; false: it is not there, or cannot be served yet. */
static bool nbd_next_request(struct conn *c)
{
	struct nbd_conn *n = nbd_of(c);
	size_t bytes = nbd_request_bytes(n->terms.mode);
	uint8_t header[NBD_REQUEST_EXTENDED];
	struct nbd_command *d;

	if (c->rx.bytes < bytes || nbd_is_full(c))
		return false;
	d = command_get(c);
	if (!d)
		return false;
	bufq_read(&c->worker->pool, &c->rx, header, bytes);
	if (nbd_parse_request(header, n->terms.mode, &d->request) < 0) {
		command_put(d);
		nbd_end(c, CONN_END_PROTOCOL);
	} else if (d->request.type == NBD_CMD_DISC) {
		command_put(d);
		nbd_end(c, CONN_END_PEER);
	} else {
		command_start(d);
	}
	return true;
}

/* Tries again what could not start; false: nothing has come of it. */
static bool nbd_retry_stalled(struct nbd_conn *n)
{
	struct nbd_command *d = n->stalled;

	n->stalled = NULL;
	while (d) {
		struct nbd_command *next = d->next;

		command_start_io(d);
		d = next;
	}
	return n->finished || !n->stalled;
}

/* One step; false: nothing can be done until something finishes, is sent, or arrives. */
static bool nbd_step(struct conn *c)
{
	struct nbd_conn *n = nbd_of(c);

	if (n->stalled)
		return nbd_retry_stalled(n);
	if (n->alone)
		return n->finished != NULL;
	if (n->phase != NBD_PHASE_TRANSMISSION)
		return false;
	if (n->dropping)
		return command_drop_payload(c);
	if (n->receiving)
		return write_go_on(n->receiving);
	return nbd_next_request(c);
}

static void nbd_answer_finished(struct conn *c)
{
	struct nbd_conn *n = nbd_of(c);

	while (n->finished && !(c->flags & CONN_CLOSING)) {
		struct nbd_command *d = n->finished;

		n->finished = d->next;
		if (!n->finished)
			n->last = &n->finished;
		if (command_answer(d))
			continue;
		d->next = n->finished;
		n->finished = d;
		if (!d->next)
			n->last = &d->next;
		conn_starved(c);
		return;
	}
}

/* Has a request begun to arrive, and does nothing but the client keep us from the rest? */
static bool nbd_owes_input(const struct conn *c)
{
	const struct nbd_conn *n = nbd_of(c);

	if (n->phase != NBD_PHASE_TRANSMISSION || n->stalled || (c->flags & CONN_STARVED))
		return false;
	if (n->receiving)
		return n->receiving->data.bytes == 0;
	return n->dropping || (c->rx.bytes > 0 && n->busy == 0 && !nbd_is_full(c));
}

void nbd_commands_run(struct conn *c)
{
	struct nbd_conn *n = nbd_of(c);

	n->running = true;
	do
		nbd_answer_finished(c);
	while (!(c->flags & CONN_CLOSING) && !conn_is_starved(c) && nbd_step(c));
	n->running = false;
	if (nbd_owes_input(c))
		nbd_expect_input(c, NBD_REQUEST_NS);
	else
		conn_set_deadline(c, 0);
}
