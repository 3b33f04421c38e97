/* A worker without a thread, whose turns the caller makes: shared by the unit tests of services and
 * by the fuzz targets.  The engine is the caller's; these are the functions that most of them need.
 */
#pragma once
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "conn.h"
#include "slices.h"

static inline int by_hand_open(struct conn *c)
{
	(void)c;
	return 0;
}

static inline void by_hand_recv(struct conn *c, bool on)
{
	(void)c, (void)on;
}

static inline void by_hand_close(struct conn *c)
{
	(void)c;
}

static inline int by_hand_admit(struct worker *w, int fd, const struct sockaddr_storage *peer)
{
	(void)w, (void)fd, (void)peer;
	return 0;
}

static inline void by_hand_released(struct worker *w)
{
	(void)w;
}

/* Admits every connection. */
static const struct worker_owner by_hand_owner = { .admit = by_hand_admit,
						   .release = by_hand_released };

/* w is zeroed. */
static inline void by_hand_init(struct worker *w, const struct service *service,
				const struct engine *engine, uint32_t chunks, uint32_t chunk_size)
{
	w->service = service;
	w->engine = engine;
	w->owner = &by_hand_owner;
	w->options.buffers = chunks;
	w->options.buffer_size = chunk_size;
	w->turn.ready_tail = &w->turn.ready;
	w->turn.now_ns = clock_ns();
	w->mailbox.fd = -1;
	if (pool_init(&w->pool, chunks, chunk_size, 0) < 0)
		abort();
}

/* No chunk may be missing. */
static inline void by_hand_fini(struct worker *w)
{
	if (w->scratch)
		chunk_put(&w->pool, w->scratch);
	assert(w->pool.free_count == w->pool.chunk_count);
	pool_fini(&w->pool);
}

/* Makes turns until no connection is ready and no slice is left; there may be several connections.
 * The first is the caller's, unless slices have its budget; the others are counted. */
static inline void by_hand_turns(struct worker *w)
{
	for (unsigned turn = 0; w->turn.ready || w->slices.first; turn++) {
		struct conn *c;

		assert(turn < 100000);
		if (turn > 0 || w->slices.first)
			stat_always_add(w->stats.turns, 1);
		if (w->slices.first)
			slices_run(w);
		c = w->turn.ready;
		w->turn.ready = NULL;
		w->turn.ready_tail = &w->turn.ready;
		for (struct conn *next; c; c = next) {
			next = c->ready_next;
			c->flags &= ~(uint32_t)CONN_READY;
			conn_run(c);
		}
	}
}

/* The connection receives at most a chunk of the bytes, and runs; returns how many. */
static inline size_t by_hand_input(struct conn *c, const void *data, size_t bytes)
{
	struct worker *w = c->worker;
	size_t n = MIN(bytes, w->pool.chunk_size);
	struct chunk *k = chunk_get(&w->pool);

	assert(k);
	memcpy(k->base, data, n);
	conn_input(c, k, k->base, (uint32_t)n);
	chunk_put(&w->pool, k);
	by_hand_turns(w);
	return n;
}
