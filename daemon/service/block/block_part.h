/* The parts in which the services nbd and nvme serve a read or write, one after the other.
 *
 * This file decides how much memory a part gets, when a connection holds enough memory, and where a
 * part of a write may end.  Wire formats and states of commands are the services' own, as is the
 * hand-over of a part to the store: nvme_submit_to_store(), and submit_to_store() of nbd. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conn.h"
#include "export.h"
#include "store.h"

enum {
	BLOCK_PART_MAX = 512 * 1024,  /* bytes of one read or write of a store */
	BLOCK_HELD_MAX = 8192 * 1024, /* bytes a connection may hold */
	BLOCK_ALIGN = 64,             /* bytes: minimum alignment of the data of reads in memory */
};

/* Data of a request that no part has taken yet. */
struct block_rest {
	uint64_t offset; /* bytes, in the export */
	uint64_t bytes;
	/* Bytes of a logical block: a power of two, and a multiple of export->align. */
	uint32_t unit;
};

/* Returns how many of the next `bytes` one part may write.  A part ends at the end of a block or of
 * the request.  So a client that disconnects leaves each block either as it was or wholly written.
 * A partial block that remains then is freed. */
static inline size_t block_part_bytes(const struct block_rest *rest, size_t bytes)
{
	size_t beyond = (size_t)(rest->offset + bytes) & (rest->unit - 1);

	if (bytes == rest->bytes)
		return bytes;
	return bytes > beyond ? bytes - beyond : 0;
}

/* Returns how many of the next `bytes` of input one write can take without a copy.  0: they must be
 * copied, as the store needs alignment, or a block is spread over too many chunks. */
size_t block_bytes_without_copy(const struct conn *c, const struct export *e,
				const struct block_rest *rest, size_t bytes);

/* True: the commands in flight hold as much memory as the connection may.  No further request is
 * read until one ends, which runs the service again. */
static inline bool block_conn_is_full(const struct conn *c)
{
	const struct worker *w = c->worker;

	return conn_held_bytes(c) - c->rx.bytes >= w->limits.held_max ||
	       conn_held_views(c) - c->rx.views >= w->limits.views_max;
}

/* True: no more data of the client can be received until some is written: c holds as much as it
 * may, or memory is short. */
static inline bool block_input_is_held_up(const struct conn *c)
{
	return conn_is_full(c) || (c->flags & CONN_RECV_OFF) || c->worker->pressure.waiting;
}

/* True: a read cannot have memory for its next part now; c runs again when its output was sent.
 * begun: earlier parts of the same read have been sent.  e: NULL if the data is no export's. */
static inline bool block_read_must_wait(struct conn *c, const struct export *e, bool begun)
{
	if (likely(!conn_read_must_wait(c, e && e->in_memory) && !(begun && block_conn_is_full(c))))
		return false;
	c->flags |= CONN_WATCH_TX;
	return true;
}

/* Adds whole chunks to `data` until it has `bytes`, or the pool has no more; the first chunk is
 * used from byte `skip` on. */
void block_add_chunks(struct worker *w, struct bufq *data, size_t bytes, size_t skip);
/* Frees the end of `data` beyond its first `bytes`, as a block may span chunks. */
void block_free_end(struct worker *w, struct bufq *data, size_t bytes);
