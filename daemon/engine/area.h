/* The pages of an area that the kernel fills: each is `out` (lent to connections) from its first
 * data until no view is left in it.
 *
 * A page that is out has one more reference than it has views; that one is held here (see
 * CHUNK_OF_AREA), like the reference of a chunk that is posted to the kernel.  So views of the area
 * end as those of other chunks do, without a test for the area.  In return, pages without a view
 * are only found by looking at all pages that are out, which area_collect() does now and then.
 * Makes no system calls.  Worker's thread only. */
#pragma once
#include <stdint.h>

#include "bufq.h"

struct area {
	/* One for each page; `used`: how many times it was filled since it went out. */
	struct chunk *pages;
	uint32_t *out; /* numbers of the pages that are out, in the order in which they went */
	uint32_t count, out_count, page_bytes;
	uint32_t looked; /* out_count after the last look */
};

/* 0 or -ENOMEM.  The memory stays the caller's. */
int area_init(struct area *a, uint8_t *memory, uint32_t count, uint32_t page_bytes);
void area_fini(struct area *a);

/* The kernel has filled bytes at this offset: their page, which is out from now on. */
struct chunk *area_filled(struct area *a, uint64_t offset);

/* Is it time for area_collect()?  It is when a quarter of all pages has gone out since
 * the last look: the cost of looking at one page that stays out is then shared by at
 * least four that were used. */
static inline bool area_is_due(const struct area *a)
{
	return (a->out_count - a->looked) * 4 >= a->count;
}

/* Takes back the pages without a view, and calls give() with a page's offset once for each time
 * that it was filled.  Returns the number of pages. */
uint32_t area_collect(struct area *a, void (*give)(void *context, uint64_t offset), void *context);

static inline uint32_t area_free(const struct area *a)
{
	return a->count - a->out_count;
}
