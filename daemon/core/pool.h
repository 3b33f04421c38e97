/* The buffers of a worker: reference-counted chunks of one slab, and views into them.
 *
 * A view has exactly one owner: a queue or a pointer.  A chunk goes back to its pool when its last
 * reference is dropped: each view holds one, and so does the kernel while it may write into the
 * chunk.  All of it belongs to one worker: no locks, no atomics. */
#pragma once
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct chunk {
	uint8_t *base;
	uint32_t refs;
	uint32_t used; /* bytes the engine has filled (incremental buffers) */
	uint32_t id;   /* index in the pool; with CHUNK_OF_AREA: in the engine's area */
};

/* The chunk is not of the pool: it is a page of the engine's receive area.  The engine holds a
 * reference as long as a view does, so `refs` is never 1 while a view exists.  So nothing is
 * appended behind a view, and chunk_put() never returns the page to the pool. */
#define CHUNK_OF_AREA (1U << 31)

struct view {
	struct view *next;
	uint8_t *data;
	struct chunk *chunk;
	uint32_t len;
	/* RDMA only, of a message in tx: the client's memory key that the arrival of this message
	 * invalidates; 0: none. */
	uint32_t key;
};

struct pool {
	struct chunk **free; /* a stack: the chunk used last is still in the CPU's cache */
	uint32_t free_count;
	uint32_t chunk_size, chunk_count;
	uint32_t stride; /* bytes from chunk to chunk: chunk_size and the engine's headroom */
	/* A quarter of the chunks, which engines leave to services for their answers. */
	uint32_t keep;
	uint32_t floor;     /* a receive that would leave fewer chunks must call conn_reserve() */
	struct view *views; /* free list */
	struct chunk *chunks;
	uint8_t *slab; /* chunk_count * stride bytes, page aligned: registered once */
	struct view_block *blocks;
	/* Blocks kept for times when the host has no memory; spare_count of them. */
	struct view_block *spare;
	uint32_t spare_count;
};

/* Views of a block of 64 KiB, and the number of spare blocks.  The spare views are more than the
 * connections of a worker use while nothing is received. */
enum { POOL_BLOCK_VIEWS = 1638, POOL_SPARE = 16 };

/* 0 or -ENOMEM.  Pages of the slab are touched only when used. */
int pool_init(struct pool *p, uint32_t chunk_count, uint32_t chunk_size, uint32_t headroom);
void pool_fini(struct pool *p);

/* Adds views to the free list, from a spare block if the host has no memory: then nothing is
 * received until pool_restore_views() succeeds.  Aborts only when no spare block is left. */
void pool_grow_views(struct pool *p);

/* True: spare views are in use, so connections should give theirs back. */
static inline bool pool_lacks_views(const struct pool *p)
{
	return p->spare_count < POOL_SPARE;
}
/* Allocates spare blocks for those that came into use.  False: the host still has no memory. */
bool pool_restore_views(struct pool *p);

/* While no more chunks than this are free (`keep` and an eighth of all), receives take views of the
 * reserve: see conn_reserve(). */
static inline uint32_t pool_free_for_all(const struct pool *p)
{
	return p->keep + p->chunk_count / 8;
}

static inline bool pool_is_short(const struct pool *p)
{
	return p->free_count <= pool_free_for_all(p);
}

/* A chunk with refs == 1 and used == 0, or NULL when the pool is exhausted. */
static inline struct chunk *chunk_get(struct pool *p)
{
	struct chunk *k;

	if (p->free_count == 0)
		return NULL;
	k = p->free[--p->free_count];
	assert(k->refs == 0);
	k->refs = 1;
	k->used = 0;
	return k;
}

/* Drops one reference of k, by its view or by the kernel.  The last one returns k to the pool. */
static inline void chunk_put(struct pool *p, struct chunk *k)
{
	assert(k->refs > 0);
	if (--k->refs == 0)
		p->free[p->free_count++] = k;
}

/* A view of len bytes at data, within k; takes a reference of k.
 * Never NULL: see pool_grow_views(). */
static inline struct view *view_new(struct pool *p, struct chunk *k, uint8_t *data, uint32_t len)
{
	struct view *v;

	if (!p->views)
		pool_grow_views(p);
	v = p->views;
	p->views = v->next;
	v->next = NULL;
	v->data = data;
	v->len = len;
	v->key = 0;
	v->chunk = k;
	k->refs++;
	return v;
}

/* Ends the view and drops its reference of the chunk.  The view must be in no queue. */
static inline void view_free(struct pool *p, struct view *v)
{
	chunk_put(p, v->chunk);
	v->next = p->views;
	p->views = v;
}
