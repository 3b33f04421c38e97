/* The pool of buffers.  See pool.h. */
#include "pool.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

struct view_block {
	struct view_block *next;
	struct view views[POOL_BLOCK_VIEWS];
};

/* From the kernel, not from malloc(): a spare block takes one page until it is used. */
static struct view_block *new_block(void)
{
	void *block = mmap(NULL, sizeof(struct view_block), PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return block == MAP_FAILED ? NULL : block;
}

int pool_init(struct pool *p, uint32_t chunk_count, uint32_t chunk_size, uint32_t headroom)
{
	*p = (struct pool){
		.chunk_count = chunk_count,
		.chunk_size = chunk_size,
		.stride = chunk_size + headroom,
		.keep = chunk_count / 4,
		.floor = chunk_count / 4 + chunk_count / 8,
	};
	p->slab = mmap(NULL, (size_t)chunk_count * p->stride, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	p->chunks = calloc(chunk_count, sizeof(*p->chunks));
	p->free = calloc(chunk_count, sizeof(struct chunk *));
	if (p->slab == MAP_FAILED || !p->chunks || !p->free || !pool_restore_views(p)) {
		pool_fini(p);
		return -ENOMEM;
	}
	/* The lowest chunk is on top of the stack: a light load stays within few pages. */
	for (uint32_t i = chunk_count; i-- > 0;) {
		p->chunks[i] = (struct chunk){ .base = p->slab + (size_t)i * p->stride, .id = i };
		p->free[p->free_count++] = &p->chunks[i];
	}
	return 0;
}

static void free_blocks(struct view_block *block)
{
	while (block) {
		struct view_block *next = block->next;

		munmap(block, sizeof(*block));
		block = next;
	}
}

void pool_fini(struct pool *p)
{
	if (p->slab && p->slab != MAP_FAILED)
		munmap(p->slab, (size_t)p->chunk_count * p->stride);
	free_blocks(p->blocks);
	free_blocks(p->spare);
	free(p->chunks);
	free(p->free);
	*p = (struct pool){ 0 };
}

void pool_grow_views(struct pool *p)
{
	struct view_block *block = new_block();

	if (!block && p->spare) {
		block = p->spare;
		p->spare = block->next;
		p->spare_count--;
		/* view_free() does not test for a short pool.  This floor does: each receive has to
		 * call conn_reserve(), which refuses while spare views are in use. */
		p->floor = UINT32_MAX;
	}
	if (!block)
		/* Received data needs this view, so no caller could be refused instead. */
		abort();
	block->next = p->blocks;
	p->blocks = block;
	for (unsigned i = 0; i < POOL_BLOCK_VIEWS; i++) {
		block->views[i].next = p->views;
		p->views = &block->views[i];
	}
}

bool pool_restore_views(struct pool *p)
{
	while (p->spare_count < POOL_SPARE) {
		struct view_block *block = new_block();

		if (!block)
			return false;
		block->next = p->spare;
		p->spare = block;
		p->spare_count++;
	}
	return true;
}
