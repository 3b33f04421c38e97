/* Pages of memory that the kernel fills with received data (zero-copy receive).  A page is in use
 * from its first data until no view is left in it.
 *
 * A page in use has one more reference than it has views.  The area holds that one (see
 * CHUNK_OF_AREA), as the pool does for a chunk posted to the kernel.  So a view ends in the same
 * way in a page and in a chunk, without a test.  In return, pages without a view are found only by
 * examining all pages in use, which area_collect() does from time to time.  No system calls.
 * Worker's thread only. */
#pragma once
#include <stdint.h>

#include "bufq.h"

struct area {
	/* by page; `used`: how many times it was filled since its use began */
	struct chunk *pages;
	uint32_t *in_use; /* numbers of the pages in use, in the order in which their use began */
	uint32_t count, in_use_count, page_bytes;
	uint32_t collected_at; /* in_use_count after the last area_collect() */
};

/* 0 or -ENOMEM.  The memory stays the caller's. */
int area_init(struct area *a, uint8_t *memory, uint32_t count, uint32_t page_bytes);
void area_fini(struct area *a);

/* The kernel has stored data at this offset: returns their page, which is now in use. */
struct chunk *area_filled(struct area *a, uint64_t offset);

/* Is it time for area_collect()?  It is when the number of pages in use has grown by a quarter of
 * the area.  So the cost of examining a page that stays in use is shared by at least four pages
 * that were filled. */
static inline bool area_is_due(const struct area *a)
{
	return (a->in_use_count - a->collected_at) * 4 >= a->count;
}

/* Ends the use of pages without a view, and calls give() with a page's offset once for each time
 * that it was filled.  Returns the number of pages. */
uint32_t area_collect(struct area *a, void (*give)(void *context, uint64_t offset), void *context);

static inline uint32_t area_free(const struct area *a)
{
	return a->count - a->in_use_count;
}
