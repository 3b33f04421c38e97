/* simple/echo.c, chargen.c: what comes out depends only on what came in, however it was
 * cut on the way. */
#include "fake_engine.h"
#include "registry.h"
#include "unit.h"
#include "util.h"
#include "worker_owner.h"

CLEANUP_OF(struct fake *, fake_stop)

enum { CHUNKS = 256, CHUNK = 16 * 1024, INPUT = 60000, TEXT_PERIOD = 95 * 74 };

static uint8_t input[INPUT];

static unsigned random_below(unsigned *seed, unsigned n)
{
	*seed = *seed * 1103515245U + 12345U;
	return (*seed >> 8) % n;
}

static struct fake *start(const char *name)
{
	const struct service *service = registry_service(name);

	assert_non_null(service);
	return fake_start(service, CHUNKS, CHUNK, 0);
}

/* Sends all of the input at random splits, while the peer takes some of the output now and then and
 * sends are short; ends with a FIN when the output has come. */
static void talk_at_random(struct fake *f, struct fake_peer *p, unsigned seed)
{
	static const unsigned most[] = { 1, 10, 600, 5000, CHUNK };
	size_t sent = 0;

	for (unsigned i = 0; sent < INPUT; i++) {
		size_t n = 1 + random_below(&seed, most[random_below(&seed, ARRAY_SIZE(most))]);

		assert_true(i < 1000000);
		p->send_max = random_below(&seed, 4) ? 0 : 1 + random_below(&seed, 2000);
		sent += fake_send(f, p, input + sent, MIN(n, INPUT - sent));
		if (random_below(&seed, 2))
			fake_take(f, p, random_below(&seed, 20000));
		fake_turn(f);
	}
	p->send_max = 0;
	fake_eof(f, p);
	fake_take(f, p, SIZE_MAX);
	fake_settle(f);
}

/* ---- echo ---- */

static void check_echo(struct fake *f, struct fake_peer *p)
{
	fake_settle(f);
	assert_int_equal(p->out_bytes, INPUT);
	assert_memory_equal(p->out, input, INPUT);
}

TEST(echo_of_large_pieces)
{
	CLEANUP(fake_stop_p) struct fake *f = start("echo");
	struct fake_peer *p = fake_connect(f);

	fake_send_all(f, p, input, INPUT, CHUNK);
	check_echo(f, p);
	assert_int_equal(stat_load(f->worker.stats.bytes_copied), 0);
}

TEST(echo_at_random_splits_is_the_same)
{
	for (unsigned seed = 1; seed <= 20; seed++) {
		CLEANUP(fake_stop_p) struct fake *f = start("echo");
		struct fake_peer *p = fake_connect(f);

		f->completion = seed % 2;
		talk_at_random(f, p, seed);
		check_echo(f, p);
		assert_null(p->conn);
	}
}

TEST(echo_counts_one_operation_a_batch)
{
	CLEANUP(fake_stop_p) struct fake *f = start("echo");
	struct fake_peer *p = fake_connect(f);

	fake_send_all(f, p, input, 1000, 100);
	assert_int_equal(stat_load(f->worker.stats.operations[0].count), 10);
	fake_send(f, p, input, 100);
	fake_send(f, p, input, 100); /* in the same turn */
	fake_settle(f);
	assert_int_equal(stat_load(f->worker.stats.operations[0].count), 11);
	assert_int_equal(stat_load(f->worker.stats.bytes_in), 1200);
	assert_int_equal(stat_load(f->worker.stats.bytes_out), 1200);
}

/* ---- chargen ---- */

/* RFC 864: lines of 72 characters out of the 95 printable ones, each line beginning one further. */
static uint8_t text_at(size_t i)
{
	size_t line = i / 74, column = i % 74;

	if (column >= 72)
		return column == 72 ? '\r' : '\n';
	return (uint8_t)(' ' + (line + column) % 95);
}

static void check_text(const struct fake_peer *p)
{
	for (size_t i = 0; i < p->out_bytes; i++)
		if (p->out[i] != text_at(i))
			fail_msg("byte %zu: %02x, not %02x", i, p->out[i], text_at(i));
}

static struct fake_peer *connect_reader(struct fake *f)
{
	f->room = 0;
	return fake_connect(f);
}

TEST(chargen_in_small_takes_is_the_same)
{
	for (unsigned round = 1; round <= 10; round++) {
		CLEANUP(fake_stop_p) struct fake *f = start("chargen");
		struct fake_peer *p;
		unsigned seed = round;

		f->completion = round % 2;
		p = connect_reader(f);
		while (p->out_bytes < 3 * CHUNK) {
			p->send_max = random_below(&seed, 2) ? 1 + random_below(&seed, 3000) : 0;
			fake_take(f, p, 1 + random_below(&seed, 5000));
			fake_turn(f);
		}
		check_text(p);
	}
}

TEST(chargen_holds_one_chunk_for_all_clients)
{
	CLEANUP(fake_stop_p) struct fake *f = start("chargen");

	for (unsigned i = 0; i < 20; i++)
		connect_reader(f);
	assert_int_equal(fake_chunks_used(f), 1);
}

TEST(chargen_sends_after_a_fin_and_ends_with_a_drain)
{
	CLEANUP(fake_stop_p) struct fake *f = start("chargen");
	struct fake_peer *p = connect_reader(f);

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

/* ---- All ---- */

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

static int fill_input(void **state)
{
	(void)state;
	for (size_t i = 0; i < INPUT; i++)
		input[i] = (uint8_t)(i * 31 + i / 256 * 7);
	return 0;
}

ALL_TESTS_WITH(fill_input, NULL)
