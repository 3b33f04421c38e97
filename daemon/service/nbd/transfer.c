/* Service `nbd`: reads and writes.  See nbd.h.
 *
 * A write hands the chunks that were received to the store.  A read fills memory that begins with
 * room for the reply's header, so that the reply needs no further memory. */
#include <string.h>

#include "conn_op.h"
#include "nbd.h"

/* ---- Reads ---- */

void nbd_read_start(struct nbd_command *d)
{
	struct conn *c = d->conn;
	struct nbd_conn *n = nbd_of(c);
	uint64_t left = nbd_command_left(d);

	if (block_read_must_wait(c, n->mount->export, d->done_bytes > 0)) {
		nbd_command_set(d, COMMAND_STALLED);
		return;
	}
	nbd_part_room(
		d, d->done_bytes && d->one_header ? 0 : NBD_CHUNK_MAX,
		conn_read_share(c, (size_t)MIN(left, BLOCK_PART_MAX), n->mount->export->align));
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

/* Queues the header, in the memory that nbd_part_room() reserved, and the
 * part, unless it is a hole. */
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
		nbd_command_set(d, COMMAND_STALLED); /* it goes on as the run's limit allows */
		return true;
	}
	conn_op_reply(c, d->operation, d->start_ns);
	nbd_command_set(d, COMMAND_FREE);
	return true;
}

/* ---- Writes ---- */

/* The rest of the payload.  A logical block of NBD is the preferred block size that it tells. */
static struct block_rest write_rest(const struct nbd_command *d)
{
	return (struct block_rest){
		.offset = d->request.offset + d->done_bytes,
		.bytes = nbd_command_left(d),
		.unit = MAX(d->io.mount->export->align, NBD_BLOCK_PREFERRED),
	};
}

/* The number of payload bytes that may be written now; 0: wait for more. */
static size_t write_ready(const struct nbd_command *d, const struct block_rest *rest)
{
	const struct conn *c = d->conn;
	size_t arrived = nbd_of(c)->begun_bytes + c->rx.bytes;
	size_t want = (size_t)MIN(rest->bytes, BLOCK_PART_MAX);

	if (arrived < want && c->rx.views < IO_IOV_MAX && !block_is_held_up(c))
		return 0;
	return block_whole(rest, MIN(arrived, want));
}

/* Nothing can be written yet.  If memory is short, moves a partial block out of the pool, where it
 * would keep the rest, or other clients' data, from being received. */
static void write_wait(struct conn *c, const struct block_rest *rest)
{
	if (block_is_held_up(c) && nbd_begin(c, rest->unit) < 0)
		conn_close(c, CONN_END_ERROR);
}

/* Moves a part of the payload from the input to d->data: its chunks as they are, or a copy where
 * the store needs alignment, or a block is in too many pieces.  Returns its bytes; 0: no memory. */
static size_t write_take(struct nbd_command *d, const struct block_rest *rest, size_t bytes)
{
	struct conn *c = d->conn;
	struct pool *p = &c->worker->pool;
	size_t views = 0;

	if (!nbd_of(c)->begun_bytes)
		views = block_received(c, d->io.mount->export, rest, bytes);
	if (views) {
		bufq_take(p, &d->data, &c->rx, views);
		return views;
	}
	nbd_part_room(d, 0, bytes);
	block_cut(c->worker, &d->data, block_whole(rest, d->data.bytes));
	for (struct view *v = d->data.head; v; v = v->next)
		nbd_begun_read(c, v->data, v->len);
	stat_add(c->worker->stats.bytes_copied, d->data.bytes);
	return d->data.bytes;
}

bool nbd_write_go_on(struct nbd_command *d)
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
