/* store/page_map.c beside an array of flags, with random ranges. */
#include "config_case.h"

#include "page_map.h"

enum { PAGES = 300 };

static uint64_t model_run(const bool *model, uint64_t first, uint64_t end)
{
	uint64_t at = first;

	while (at < end && model[at] == model[first])
		at++;
	return at;
}

static void a_map_is_an_array_of_flags(void **state)
{
	_Atomic uint64_t *map = page_map_new(PAGES * PAGE_MAP_BYTES);
	bool model[PAGES] = { false }, data;

	(void)state;
	assert_non_null(map);
	srandom(1);
	for (unsigned i = 0; i < 20000; i++) {
		uint64_t first = (uint64_t)random() % PAGES;
		uint64_t end = first + 1 + (uint64_t)random() % (PAGES - first);
		bool set = random() % 2;

		if (i % 3 && end > first + 8)
			end = first + 1 + (uint64_t)random() % 8; /* short ones, most of the time */
		(set ? page_map_set : page_map_clear)(map, first, end);
		memset(model + first, set, end - first);
		first = (uint64_t)random() % PAGES;
		end = first + 1 + (uint64_t)random() % (PAGES - first);
		assert_int_equal(page_map_run(map, first, end, &data),
				 model_run(model, first, end));
		assert_int_equal(data, model[first]);
	}
	page_map_free(map, PAGES * PAGE_MAP_BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_map_is_an_array_of_flags),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
