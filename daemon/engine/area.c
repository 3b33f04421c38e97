/* Pages of memory that the kernel fills with received data.  See area.h. */
#include "area.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

int area_init(struct area *a, uint8_t *memory, uint32_t count, uint32_t page_bytes)
{
	*a = (struct area){ .count = count, .page_bytes = page_bytes };
	a->pages = calloc(count, sizeof(*a->pages));
	a->in_use = calloc(count, sizeof(*a->in_use));
	if (!a->pages || !a->in_use) {
		area_fini(a);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < count; i++) {
		a->pages[i].base = memory + (size_t)i * page_bytes;
		a->pages[i].id = i | CHUNK_OF_AREA;
	}
	return 0;
}

void area_fini(struct area *a)
{
	free(a->pages);
	free(a->in_use);
	*a = (struct area){ 0 };
}

struct chunk *area_filled(struct area *a, uint64_t offset)
{
	uint32_t page = (uint32_t)(offset / a->page_bytes);
	struct chunk *k = &a->pages[page];

	assert(page < a->count);
	if (k->refs == 0) {
		k->refs = 1;
		a->in_use[a->in_use_count++] = page;
	}
	k->used++;
	return k;
}

uint32_t area_collect(struct area *a, void (*give)(void *context, uint64_t offset), void *context)
{
	uint32_t kept = 0, collected;

	for (uint32_t i = 0; i < a->in_use_count; i++) {
		uint32_t page = a->in_use[i];
		struct chunk *k = &a->pages[page];

		if (k->refs > 1) {
			a->in_use[kept++] = page;
			continue;
		}
		for (; k->used > 0; k->used--)
			give(context, (uint64_t)page * a->page_bytes);
		k->refs = 0;
	}
	collected = a->in_use_count - kept;
	a->in_use_count = a->collected_at = kept;
	return collected;
}
