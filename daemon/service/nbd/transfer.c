/* Service `nbd`: reads and writes.  See nbd/command.h.
 *
 * A write hands the chunks that were received to the store.  A read fills memory that begins with
 * room for the reply's header, so that the reply needs no further memory. */
#include <string.h>

#include "command.h"

/* ---- Reads ---- */

void nbd_read_start(struct nbd_command *d)
{
	struct conn *c = d->conn;
	struct nbd_conn *n = nbd_of(c);
	uint64_t left = nbd_command_left(d);

	if (conn_read_must_wait(c, n->mount->export->in_memory) ||
	    (d->done_bytes > 0 && nbd_is_full(c))) {
		c->flags |= CONN_WATCH_TX;
		nbd_command_set(d, COMMAND_STALLED);
		return;
	}
	nbd_part_room(d, d->done_bytes && d->one_header ? 0 : NBD_CHUNK_MAX,
		      conn_read_share(c, (size_t)MIN(left, NBD_PART_MAX), n->mount->export->align));
	if (d->data.bytes == 0) {
		conn_wait_for_memory(c);
		nbd_command_set(d, COMMAND_STALLED);
		return;
	}
	if (d->one_header && d->data.bytes < left && n->alone != d) {
		/* The parts of one reply must follow each other on the wire. */
		if (n->busy > 1) {
			nbd_part_drop(d);
			nbd_command_set(d, COMMAND_STALLED);
			return;
		}
		n->alone = d;
	}
	nbd_part_iov(d);
	nbd_part_submit(d, IO_read, d->data.bytes);
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

/* Queues the header, in the memory that nbd_part_room() reserved, and the part, unless it is a
 * hole. */
static void read_send(struct nbd_command *d, bool hole, bool last)
{
	struct conn *c = d->conn;
	enum nbd_mode mode = nbd_of(c)->terms.mode;
	uint64_t offset = d->one_header ? d->request.offset : d->io.offset;
	uint32_t length = (uint32_t)(d->one_header ? d->request.length : d->io.length);
	bool apart = d->header != NULL;
	struct view *v = apart ? d->header : d->data.head;
	uint8_t header[NBD_CHUNK_MAX];
	size_t bytes;

	if (hole)
		bytes = nbd_build_hole(header, mode, &d->request, offset, length, last);
	else
		bytes = nbd_build_data(header, mode, &d->request, offset, length, last);
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
	if (!hole)
		bufq_splice(&c->tx, &d->data);
	else if (!apart)
		bufq_take(&c->worker->pool, &c->tx, &d->data, bytes);
	nbd_part_drop(d);
}

bool nbd_read_answer(struct nbd_command *d)
{
	struct conn *c = d->conn;
	const struct nbd_conn *n = nbd_of(c);
	bool first = d->done_bytes == 0, last;

	if (d->result < 0 && d->one_header && !first) {
		/* a success header has been sent already, so no error can follow. */
		conn_close(c, CONN_END_ERROR);
		return true;
	}
	if (d->result < 0)
		return nbd_command_reply(d, nbd_error_of(d->result), "reading the export failed");
	d->done_bytes += d->io.length;
	last = nbd_command_left(d) == 0;
	if (!d->one_header)
		read_send(d, n->mount->export->holes && data_is_zero(&d->data), last);
	else if (first)
		read_send(d, false, true);
	else
		bufq_splice(&c->tx, &d->data);
	if (!last) {
		nbd_read_start(d);
		return true;
	}
	conn_op_reply(c, d->operation, d->start_ns);
	nbd_command_set(d, COMMAND_FREE);
	return true;
}

/* ---- Writes ---- */

/* True: more payload cannot arrive before some is written, because c holds as much as it may (or
 * did when its input was paused) or memory is short. */
static bool write_is_held_up(const struct conn *c)
{
	return conn_is_full(c) || (c->flags & CONN_RECV_OFF) || c->worker->pressure.waiting;
}

/* Of the next `bytes` of the payload, those that a part may have: it ends where a block does, or
 * the request, so that a client that is gone leaves each block as it was, or written. */
static size_t write_whole(const struct nbd_command *d, size_t bytes)
{
	uint32_t block = MAX(d->io.mount->export->align, NBD_BLOCK_PREFERRED);
	size_t beyond = (size_t)((d->request.offset + d->done_bytes + bytes) % block);

	if (bytes == nbd_command_left(d))
		return bytes;
	return bytes > beyond ? bytes - beyond : 0;
}

/* The number of payload bytes that may be written now; 0: wait for more. */
static size_t write_ready(const struct nbd_command *d)
{
	const struct conn *c = d->conn;
	size_t arrived = nbd_of(c)->begun_bytes + c->rx.bytes;
	size_t want = (size_t)MIN(nbd_command_left(d), NBD_PART_MAX);

	if (arrived < want && c->rx.views < IO_IOV_MAX && !write_is_held_up(c))
		return 0;
	return write_whole(d, MIN(arrived, want));
}

/* Nothing can be written yet.  If memory is short, moves a partial block out of the pool, where it
 * would keep the rest, or other clients' data, from being received. */
static void write_wait(struct nbd_command *d)
{
	struct conn *c = d->conn;
	uint32_t block = MAX(d->io.mount->export->align, NBD_BLOCK_PREFERRED);

	if (write_is_held_up(c) && nbd_begin(c, block) < 0)
		conn_close(c, CONN_END_ERROR);
}

/* The bytes, of those, that one request to the store can take as they were received; 0: copy. */
static size_t write_views(const struct nbd_command *d, size_t bytes)
{
	const struct view *v = d->conn->rx.head;
	size_t have = 0;

	if (d->io.mount->export->align > 1 || nbd_of(d->conn)->begun_bytes)
		return 0;
	for (unsigned i = 0; v && i < IO_IOV_MAX && have < bytes; i++, v = v->next)
		have += v->len;
	return write_whole(d, MIN(have, bytes));
}

/* Moves a part of the payload from the input to d->data: its chunks as they are, or a copy where
 * the store needs alignment, or a block is in too many pieces.  Returns its bytes; 0: no memory. */
static size_t write_take(struct nbd_command *d, size_t bytes)
{
	struct conn *c = d->conn;
	struct pool *p = &c->worker->pool;
	size_t views = write_views(d, bytes);

	if (views) {
		bufq_take(p, &d->data, &c->rx, views);
		return views;
	}
	nbd_part_room(d, 0, bytes);
	nbd_part_cut(d, d->data.bytes - write_whole(d, d->data.bytes));
	for (struct view *v = d->data.head; v; v = v->next)
		nbd_begun_read(c, v->data, v->len);
	stat_add(c->worker->stats.bytes_copied, d->data.bytes);
	return d->data.bytes;
}

bool nbd_write_go_on(struct nbd_command *d)
{
	struct conn *c = d->conn;
	struct nbd_conn *n = nbd_of(c);
	size_t bytes;

	bytes = write_ready(d);
	if (bytes == 0) {
		write_wait(d);
		return false;
	}
	bytes = write_take(d, bytes);
	if (bytes == 0) {
		conn_wait_for_memory(c);
		return false;
	}
	if (bytes == nbd_command_left(d)) {
		n->payload = NULL;
		nbd_command_arrived(d);
	}
	nbd_part_iov(d);
	nbd_part_submit(d, IO_write, bytes);
	return true;
}

bool nbd_write_answer(struct nbd_command *d)
{
	static const char write_failed[] = "writing the export failed";
	bool whole = d->done_bytes + d->io.length == d->request.length;

	if (whole)
		return nbd_command_reply(d, nbd_error_of(d->result),
					 d->result ? write_failed : NULL);
	if (d->result < 0) {
		nbd_command_fail(d, nbd_error_of(d->result), write_failed,
				 nbd_command_left(d) - d->io.length);
		return true;
	}
	d->done_bytes += d->io.length;
	nbd_part_drop(d);
	nbd_command_set(d, COMMAND_RECEIVING);
	return true;
}
