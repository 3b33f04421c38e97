/* store/page_map.c beside an array of flags, with random ranges. */
#include "config_case.h"

#include <pthread.h>

#include "page_map.h"

enum { PAGES = 300 };

static uint64_t model_run(const bool *model, uint64_t first, uint64_t end)
{
	uint64_t at = first;

	while (at < end && model[at] == model[first])
		at++;
	return at;
}

TEST(a_map_is_an_array_of_flags)
{
	_Atomic uint64_t *map = page_map_new(PAGES * PAGE_MAP_BYTES);
	bool model[PAGES] = { false }, data;

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

/* ---- A write beside a trim ---- */

enum { SPOTS = 1024, ROUNDS = 2000, LINE = CACHE_LINE / sizeof(int), PATIENCE = 2000 };

/* A page of each spot, whose bit is in a cache line of its own, as the data are. */
struct spots {
	_Atomic uint64_t *map;
	_Atomic int data[SPOTS * LINE];
	_Atomic int writer, trimmer; /* the spot that each is at */
	pthread_barrier_t turn;
};

static uint64_t page_of(int spot)
{
	return (uint64_t)spot * CACHE_LINE * 8;
}

/* Waits for the other thread to come to the spot, if it runs. */
static void meet(const struct spots *s, _Atomic int *own, const _Atomic int *other, int spot)
{
	bool data;

	page_map_run(s->map, page_of(spot), page_of(spot) + 1, &data); /* caches the bit */
	atomic_store_explicit(own, spot, memory_order_relaxed);
	for (int i = 0; i < PATIENCE && atomic_load_explicit(other, memory_order_relaxed) < spot;
	     i++)
		;
}

static void *write_all(void *arg)
{
	struct spots *s = arg;

	for (int round = 0; round < ROUNDS; round++) {
		pthread_barrier_wait(&s->turn);
		for (int i = 0; i < SPOTS; i++) {
			meet(s, &s->writer, &s->trimmer, i);
			atomic_store_explicit(&s->data[i * LINE], 1, memory_order_relaxed);
			page_map_set(s->map, page_of(i), page_of(i) + 1);
		}
		pthread_barrier_wait(&s->turn);
	}
	return NULL;
}

/* One round from the trimming side: the spots whose data it did not see, and that have none. */
static unsigned trim_all(struct spots *s)
{
	bool seen[SPOTS], data;
	unsigned lost = 0;

	s->writer = s->trimmer = -1;
	for (int i = 0; i < SPOTS; i++) {
		s->data[i * LINE] = 0;
		page_map_set(s->map, page_of(i), page_of(i) + 1);
	}
	pthread_barrier_wait(&s->turn);
	for (int i = 0; i < SPOTS; i++) {
		meet(s, &s->trimmer, &s->writer, i);
		page_map_clear(s->map, page_of(i), page_of(i) + 1);
		seen[i] = atomic_load_explicit(&s->data[i * LINE], memory_order_relaxed);
	}
	pthread_barrier_wait(&s->turn);
	for (int i = 0; i < SPOTS; i++) {
		page_map_run(s->map, page_of(i), page_of(i) + 1, &data);
		lost += !data && !seen[i];
	}
	return lost;
}

/* With one CPU it shows nothing. */
TEST(a_trim_sees_the_data_or_the_write_sees_the_trim)
{
	static struct spots s;
	pthread_t writer;
	unsigned lost = 0;

	s.map = page_map_new(page_of(SPOTS) * PAGE_MAP_BYTES);
	pthread_barrier_init(&s.turn, NULL, 2);
	assert_int_equal(pthread_create(&writer, NULL, write_all, &s), 0);
	for (int round = 0; round < ROUNDS; round++)
		lost += trim_all(&s);
	pthread_join(writer, NULL);
	pthread_barrier_destroy(&s.turn);
	page_map_free(s.map, page_of(SPOTS) * PAGE_MAP_BYTES);
	assert_int_equal(lost, 0);
}
