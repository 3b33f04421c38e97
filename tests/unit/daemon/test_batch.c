/* When requests gather: core/batch.c. */
#include "batch.h"
#include "unit.h"

static const struct service service_requests = { .name = "requests",
						 .flags = SERVICE_COUNTS_REQUESTS };
static const struct service service_bytes = { .name = "bytes" };

static struct worker worker;

static struct worker *worker_of(const struct service *service, uint64_t batch_delay_ns)
{
	worker = (struct worker){ .service = service, .options.batch_delay_ns = batch_delay_ns };
	batch_init(&worker);
	return &worker;
}

/* Turns until the next look, which sees `pending`, each with `most` requests of a connection. */
static unsigned turns_to_look(struct worker *w, bool pending, uint32_t most)
{
	unsigned turns = 0;

	while (!batch_check_due(w)) {
		batch_delay(w);
		batch_requests(w, most, 0);
		turns++;
	}
	batch_input_checked(w, pending);
	return turns;
}

TEST(only_requests_gather)
{
	assert_true(worker_of(&service_requests, UINT64_MAX)->batch.on);
	assert_false(worker_of(&service_requests, 0)->batch.on);
	assert_false(worker_of(&service_bytes, UINT64_MAX)->batch.on);
}

TEST(one_request_at_a_time_does_not_wait)
{
	struct worker *w = worker_of(&service_requests, UINT64_MAX);
	unsigned turns = 0, looks = 0;

	for (; looks < 20; looks++) {
		turns += turns_to_look(w, false, 1);
		assert_int_equal(batch_delay(w), 0);
	}
	assert_true(turns / looks > 500); /* and looking costs next to nothing */
	assert_int_equal(stat_load(w->stats.gathered), 0);
}

/* Many clients that wait for each answer: input of other clients is always there. */
TEST(many_with_one_request_each_stop_at_the_first_look)
{
	struct worker *w = worker_of(&service_requests, UINT64_MAX);

	turns_to_look(w, true, 1);
	assert_int_equal(batch_delay(w), BATCH_FIRST_NS);
	assert_int_equal(turns_to_look(w, true, 1), BATCH_TURNS);
	assert_int_equal(batch_delay(w), 0);
	assert_int_equal(turns_to_look(w, false, 1), BATCH_IDLE_TURNS);
}

TEST(a_useful_delay_grows_to_its_bound)
{
	struct worker *w = worker_of(&service_requests, UINT64_MAX);

	for (unsigned i = 0; i < 10; i++)
		turns_to_look(w, true, 4);
	assert_int_equal(batch_delay(w), BATCH_AUTO_NS);
	assert_int_equal(stat_load(w->stats.batch_delay_ns), BATCH_AUTO_NS);
	w = worker_of(&service_requests, 5000);
	for (unsigned i = 0; i < 10; i++)
		turns_to_look(w, true, 4);
	assert_int_equal(batch_delay(w), 5000);
}

TEST(a_delay_that_is_no_longer_useful_ends)
{
	struct worker *w = worker_of(&service_requests, UINT64_MAX);

	for (unsigned i = 0; i < 10; i++)
		turns_to_look(w, true, 4);
	for (unsigned i = 0; i < 3; i++)
		turns_to_look(w, false, 4);
	assert_int_equal(batch_delay(w), 0);
}

TEST(answers_of_a_store_are_not_delayed)
{
	struct worker *w = worker_of(&service_requests, UINT64_MAX);

	for (unsigned i = 0; i < 10; i++)
		turns_to_look(w, true, 4);
	w->io.count = 1;
	assert_int_equal(batch_delay(w), 0);
	for (unsigned i = 0; i < 1000; i++)
		assert_false(batch_check_due(w));
}

TEST(a_turn_that_brings_many_does_not_wait_for_more)
{
	struct worker *w = worker_of(&service_requests, UINT64_MAX);

	for (unsigned i = 0; i < 10; i++)
		turns_to_look(w, true, 4);
	batch_delay(w);
	batch_requests(w, BATCH_ENOUGH / 2, 0);
	batch_requests(w, BATCH_ENOUGH / 2, 0); /* another connection's */
	assert_int_equal(batch_delay(w), 0);
	batch_requests(w, 2, BATCH_ENOUGH * BATCH_WORK); /* much work each */
	assert_int_equal(batch_delay(w), 0);
	batch_requests(w, BATCH_ENOUGH - 1, 0);
	assert_int_equal(batch_delay(w), BATCH_AUTO_NS);
}
