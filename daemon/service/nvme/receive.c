/* Service `nvme`: receives data of hosts, for a store or into d->page.  See nvme/queue.h.
 *
 * Data for a store stays in the input until its PDU is complete and the digest has been verified.
 * If memory is too short to receive the whole PDU, whole blocks are written as they arrive: if the
 * digest is wrong then, the command fails, these blocks are undefined, and the host writes them
 * again.  A write never ends within a block: see block_whole(). */
#include <errno.h>
#include <stdlib.h>

#include "bytes.h"
#include "crc32c.h"
#include "queue.h"

void nvme_receive(struct nvme_command *d, uint32_t bytes)
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
	return block_is_held_up(c) ? (uint32_t)MIN(q->data_left, c->rx.bytes) : 0;
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
	receive_copy(q, d->page + d->begun_bytes, bytes);
	d->begun_bytes += bytes;
	return true;
}

/* Copies whole blocks into memory that is aligned as the store requires. */
static bool receive_blocks(struct nvme_queue *q, const struct block_rest *rest, uint32_t bytes)
{
	struct nvme_command *d = q->receiving;
	uint32_t begun = d->begun_bytes;
	uint32_t whole = (uint32_t)block_whole(rest, begun + bytes);

	if (whole == 0)
		return receive_begin(q, bytes);
	nvme_part_room(d, whole, false);
	if (d->data.bytes == 0) {
		conn_wait_for_memory(q->conn);
		return false;
	}
	for (struct view *v = d->data.head; v; v = v->next) {
		if (begun)
			memcpy(v->data, d->page, begun);
		receive_copy(q, v->data + begun, v->len - begun);
		begun = 0;
	}
	d->begun_bytes = 0;
	nvme_page_free(d);
	stat_add(q->conn->worker->stats.bytes_copied, d->data.bytes);
	return true;
}

static bool receive_part(struct nvme_queue *q)
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
	if (!d->begun_bytes)
		whole = (uint32_t)block_received(q->conn, d->io.mount->export, &rest, bytes);
	if (whole)
		receive_views(q, whole);
	else if (!receive_blocks(q, &rest, bytes))
		return false;
	if (d->data.bytes)
		nvme_part_submit(d, IO_write, d->offset + d->done_bytes, d->data.bytes);
	return true;
}

bool nvme_receive_go_on(struct nvme_queue *q)
{
	const struct nvme_command *d = q->receiving;

	if (q->data_left == 0)
		return receive_end(q);
	if (d->status)
		return receive_drop(q);
	return d->verb->start ? receive_page(q) : receive_part(q);
}
