/* engine/area.c, and what core/ does with its pages: each goes back once for each time that it was
 * filled, when no view is left in it, and nothing is written behind a view. */
#include "area.h"
#include "service_case.h"

enum { PAGES = 16, PAGE = 4096, BYTES = PAGES * PAGE, UNTOUCHED = 0xEE };

/* An area, and what a kernel would know: how often each page was given back. */
struct area_case {
	struct area area;
	struct pool pool; /* of the views */
	unsigned given[PAGES];
	uint8_t memory[BYTES];
};

static void given(void *context, uint64_t offset)
{
	struct area_case *t = context;

	assert_int_equal(offset % PAGE, 0);
	assert_in_range(offset, 0, BYTES - PAGE);
	t->given[offset / PAGE]++;
}

static int start(void **state)
{
	struct area_case *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	memset(t->memory, UNTOUCHED, BYTES);
	assert_int_equal(area_init(&t->area, t->memory, PAGES, PAGE), 0);
	assert_int_equal(pool_init(&t->pool, PAGES, 4 * PAGE, 0), 0);
	*state = t;
	return 0;
}

static int stop(void **state)
{
	struct area_case *t = *state;

	area_fini(&t->area);
	pool_fini(&t->pool);
	free(t);
	return 0;
}

static uint32_t collect(struct area_case *t)
{
	return area_collect(&t->area, given, t);
}

/* A view of what the kernel has filled. */
static void fill(struct area_case *t, struct bufq *q, uint64_t offset, uint32_t bytes)
{
	struct chunk *k = area_filled(&t->area, offset);

	assert_ptr_equal(k->base, t->memory + offset / PAGE * PAGE);
	bufq_push(q, view_new(&t->pool, k, t->memory + offset, bytes));
}

TEST_WITH(a_page_goes_back_once_for_each_time_it_was_filled, start, stop, NULL)
{
	struct area_case *t = *state;
	struct bufq q = { 0 };

	fill(t, &q, 3 * PAGE, 1448);
	fill(t, &q, 5 * PAGE, PAGE);
	fill(t, &q, 3 * PAGE + 1448, 1448);
	assert_int_equal(area_free(&t->area), PAGES - 2);
	assert_int_equal(collect(t), 0);
	bufq_drop(&t->pool, &q, 1448);
	assert_int_equal(collect(t), 0); /* the other end of the page still has a view */
	bufq_clear(&t->pool, &q);
	assert_int_equal(collect(t), 2);
	assert_int_equal(t->given[3], 2);
	assert_int_equal(t->given[5], 1);
	assert_int_equal(area_free(&t->area), PAGES);
	assert_int_equal(collect(t), 0);
	fill(t, &q, 3 * PAGE, 1);
	bufq_clear(&t->pool, &q);
	assert_int_equal(collect(t), 1);
	assert_int_equal(t->given[3], 3);
	assert_int_equal(t->pool.free_count, PAGES); /* and none went to the pool */
}

TEST_WITH(a_page_whose_view_was_split_waits_for_both_halves, start, stop, NULL)
{
	struct area_case *t = *state;
	struct bufq q = { 0 }, sent = { 0 };

	fill(t, &q, 0, PAGE);
	bufq_take(&t->pool, &sent, &q, 100);
	bufq_clear(&t->pool, &q);
	assert_int_equal(collect(t), 0);
	bufq_clear(&t->pool, &sent);
	assert_int_equal(collect(t), 1);
	assert_int_equal(t->given[0], 1);
}

TEST_WITH(looking_is_due_when_a_quarter_went_out, start, stop, NULL)
{
	struct area_case *t = *state;
	struct bufq held = { 0 }, q = { 0 };

	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < PAGES / 4; i++) {
			assert_false(area_is_due(&t->area));
			fill(t, &held, (4ULL * round + i) * PAGE, PAGE);
		}
		assert_true(area_is_due(&t->area));
		assert_int_equal(collect(t), 0);
	}
	for (unsigned i = 12; i < PAGES; i++)
		fill(t, &q, (uint64_t)i * PAGE, PAGE);
	assert_true(area_is_due(&t->area));
	bufq_clear(&t->pool, &q);
	assert_int_equal(collect(t), 4);
	bufq_clear(&t->pool, &held);
	assert_int_equal(collect(t), 12);
	for (unsigned i = 0; i < PAGES; i++)
		assert_int_equal(t->given[i], 1);
}

/* ---- In a connection ---- */

static void keep(struct conn *c)
{
	(void)c;
}

static const struct service keeping = { .name = "keep", .operations = { "x" }, .run = keep };

static void small_input(struct service_case *s, char byte, uint32_t bytes)
{
	struct chunk *k = chunk_get(&s->worker.pool);

	assert_non_null(k);
	memset(k->base, byte, bytes);
	conn_input(s->conn, k, k->base, bytes);
	chunk_put(&s->worker.pool, k);
}

/* Behind it is another page, which may be another connection's. */
TEST_WITH(nothing_is_written_behind_a_view_in_a_page, start, stop, NULL)
{
	struct area_case *t = *state;
	struct service_case *s = case_new(&keeping, PAGES, 4 * PAGE);
	struct chunk *k = area_filled(&t->area, 0);

	memset(k->base, 'a', PAGE - 10);
	conn_input(s->conn, k, k->base, PAGE - 10);
	small_input(s, 'b', 100);
	for (unsigned i = PAGE - 10; i < BYTES; i++)
		assert_int_equal(t->memory[i], UNTOUCHED);
	assert_int_equal(s->conn->rx.bytes, PAGE + 90);
	assert_int_equal(s->conn->rx.views, 2);
	assert_int_equal(s->conn->rx.tail->data[99], 'b');
	case_free(s);
	assert_int_equal(collect(t), 1);
}

/* Others wait for pages: little input moves to the pool, and its page is free. */
TEST_WITH(a_little_input_leaves_its_page_when_others_wait, start, stop, NULL)
{
	struct area_case *t = *state;
	CLEANUP(case_free_p) struct service_case *s = case_new(&keeping, PAGES, 4 * PAGE);
	struct chunk *k = area_filled(&t->area, PAGE);

	memset(k->base, 'a', 1000);
	conn_input(s->conn, k, k->base, 1000);
	assert_int_equal(collect(t), 0);
	conn_compact(s->conn);
	assert_int_equal(collect(t), 1);
	assert_int_equal(t->given[1], 1);
	assert_int_equal(s->conn->rx.bytes, 1000);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(s->conn->rx.head->data[i], 'a');
}
