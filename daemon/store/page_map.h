/* A bitmap of the pages of a store's memory that may have data: writes set bits, trims clear them.
 * A page without its bit reads as zeros, and reading it would only allocate it.  Several workers
 * use one map at the same time. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* bytes of a page of the map, whatever the machine's page size is */
#define PAGE_MAP_BYTES ((uint64_t)4096)

/* The map of `size` bytes, without data; NULL with errno.  Its own memory is allocated as it is
 * written to: a byte for each 32 KiB. */
_Atomic uint64_t *page_map_new(uint64_t size);
void page_map_free(_Atomic uint64_t *map, uint64_t size);

/* Pages first to end - 1 have data.  Called when these have been written, see page_map_clear(). */
void page_map_set(_Atomic uint64_t *map, uint64_t first, uint64_t end);
/* Pages first to end - 1 have no data.  Called before their memory is freed: a concurrent write
 * either sets its bit again afterwards, or its data are freed as well. */
void page_map_clear(_Atomic uint64_t *map, uint64_t first, uint64_t end);

/* Returns the end of the run of pages from `first` that all have data or all have none, at most
 * `end`. *ret_data: they have data. */
uint64_t page_map_run(const _Atomic uint64_t *map, uint64_t first, uint64_t end, bool *ret_data);
