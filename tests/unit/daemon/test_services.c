/* Services over the fake engine: no end of a connection loses memory, and chargen ends with a
 * drain.
 */
#include "fake_engine.h"
#include "registry.h"
#include "unit.h"
#include "util.h"
#include "worker_owner.h"

CLEANUP_OF(struct fake *, fake_stop)

enum { CHUNKS = 256, CHUNK = 16 * 1024, INPUT = 4000 };

static uint8_t input[INPUT];

static struct fake *start(const char *name)
{
	const struct service *service = registry_service(name);

	assert_non_null(service);
	return fake_start(service, CHUNKS, CHUNK, 0);
}

/* Forty clients that are reset in different states; returns the chunks that stay in use. */
static uint32_t reset_forty(struct fake *f)
{
	for (unsigned i = 0; i < 40; i++) {
		struct fake_peer *p = &f->peers[0];

		f->peer_count = 0; /* the last one is gone: its place is free */
		free(p->out);
		memset(p, 0, sizeof(*p));
		fake_connect(f);
		f->completion = i % 2;
		fake_send(f, p, input, 100 * i + 1);
		for (unsigned turn = 0; turn < i % 5; turn++)
			fake_turn(f);
		if (p->conn)
			fake_reset(f, p);
		fake_settle(f);
		assert_null(p->conn);
	}
	return fake_chunks_used(f) - (f->worker.scratch != NULL);
}

TEST(every_service_survives_a_reset_at_any_time)
{
	for (unsigned s = 0; services[s]; s++) {
		CLEANUP(fake_stop_p) struct fake *f = start(services[s]->name);
		struct reason reason;

		if (services[s]->shared_new)
			f->worker.shared =
				services[s]->shared_new(&f->worker.options, "here", &reason);
		f->room = 3000;
		f->kept = reset_forty(f);
		assert_in_range(f->kept, 0, 16);
		assert_int_equal(reset_forty(f), f->kept);
		if (f->worker.shared)
			services[s]->shared_free(f->worker.shared);
	}
}

TEST(chargen_sends_after_a_fin_and_ends_with_a_drain)
{
	CLEANUP(fake_stop_p) struct fake *f = start("chargen");
	struct fake_peer *p;

	f->room = 0;
	p = fake_connect(f);
	fake_eof(f, p);
	for (unsigned i = 0; i < 5; i++) {
		fake_take(f, p, 300000);
		fake_settle(f);
		assert_non_null(p->conn);
	}
	assert_int_equal(p->out_bytes, 5 * 300000);
	worker_request(&f->worker, REQUEST_DRAIN, clock_ns() + 3600ULL * NS_PER_S);
	fake_take(f, p, SIZE_MAX);
	fake_settle(f);
	assert_null(p->conn);
	assert_int_equal(f->drained, 1);
}

static int fill_input(void **state)
{
	(void)state;
	for (size_t i = 0; i < INPUT; i++)
		input[i] = (uint8_t)(i * 31 + i / 256 * 7);
	return 0;
}

ALL_TESTS_WITH(fill_input, NULL)
