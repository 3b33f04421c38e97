/* The book of an area: pages that the kernel fills and lends to connections, each until no view is
 * left in it.
 *
 * A page that is out has one reference more than it has views, this book's (see CHUNK_OF_AREA), as
 * a chunk that is posted to the kernel has.  What has no view any more is found by looking at all
 * pages that are out, when many are, so that views end as those of other chunks do.  It knows no
 * kernel. Worker's thread only. */
#pragma once
#include <stdint.h>

#include "buf.h"

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

/* Is it time for area_collect()?  When a quarter of all pages has gone out since the last look:
 * then the look at one page that stays out is paid for by four that went. */
static inline bool area_is_due(const struct area *a)
{
	return (a->out_count - a->looked) * 4 >= a->count;
}

/* Takes in the pages without a view, and calls give() with a page's offset once for each time that
 * it was filled.  The number of pages. */
uint32_t area_collect(struct area *a, void (*give)(void *context, uint64_t offset), void *context);

static inline uint32_t area_free(const struct area *a)
{
	return a->count - a->out_count;
}
