/* The pages of a store's memory that have data.  See page_map.h. */
#include "page_map.h"

#include <stdatomic.h>
#include <sys/mman.h>

#include "util.h"

enum { WORD_BITS = 64 };

static size_t map_bytes(uint64_t size)
{
	uint64_t pages = (size + PAGE_MAP_BYTES - 1) / PAGE_MAP_BYTES;

	return (size_t)((pages + WORD_BITS - 1) / WORD_BITS * sizeof(uint64_t));
}

_Atomic uint64_t *page_map_new(uint64_t size)
{
	void *map = mmap(NULL, map_bytes(size), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return map == MAP_FAILED ? NULL : map;
}

void page_map_free(_Atomic uint64_t *map, uint64_t size)
{
	if (map)
		munmap(map, map_bytes(size));
}

/* The bits of the pages first to end - 1 that are in first's word. */
static uint64_t word_mask(uint64_t first, uint64_t end)
{
	uint64_t mask = UINT64_MAX << first % WORD_BITS;
	uint64_t last = first | (WORD_BITS - 1);

	return end > last ? mask : mask & ((UINT64_C(1) << end % WORD_BITS) - 1);
}

void page_map_set(_Atomic uint64_t *map, uint64_t first, uint64_t end)
{
	/* The caller's data must be visible before a bit is read: a CPU may execute a load before
	 * earlier stores.  Otherwise a trim could clear the bit and free the page in between, and
	 * the old data would reappear with the next write to a part of the page. */
	atomic_thread_fence(memory_order_seq_cst);
	for (; first < end; first = (first | (WORD_BITS - 1)) + 1) {
		_Atomic uint64_t *word = &map[first / WORD_BITS];
		uint64_t mask = word_mask(first, end);

		/* Most writes are to pages with data: those share the word's cache line. */
		if ((atomic_load_explicit(word, memory_order_relaxed) & mask) != mask)
			atomic_fetch_or(word, mask);
	}
}

void page_map_clear(_Atomic uint64_t *map, uint64_t first, uint64_t end)
{
	for (; first < end; first = (first | (WORD_BITS - 1)) + 1) {
		_Atomic uint64_t *word = &map[first / WORD_BITS];
		uint64_t mask = word_mask(first, end);

		if (atomic_load_explicit(word, memory_order_relaxed) & mask)
			atomic_fetch_and(word, ~mask);
	}
}

uint64_t page_map_run(const _Atomic uint64_t *map, uint64_t first, uint64_t end, bool *ret_data)
{
	uint64_t word = atomic_load_explicit(&map[first / WORD_BITS], memory_order_acquire);
	bool data = word >> first % WORD_BITS & 1;

	*ret_data = data;
	while (first < end) {
		uint64_t other = (data ? ~word : word) & (UINT64_MAX << first % WORD_BITS);

		if (other)
			return MIN((first & ~(uint64_t)(WORD_BITS - 1)) +
					   (uint64_t)__builtin_ctzll(other),
				   end);
		first = (first | (WORD_BITS - 1)) + 1;
		if (first < end)
			word = atomic_load_explicit(&map[first / WORD_BITS], memory_order_acquire);
	}
	return end;
}
