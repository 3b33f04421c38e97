/* core/conn.c and worker_turn.c: how connections end, backpressure, a pool that is exhausted, and
 * conn_write(), over an engine without a kernel. */
#include <errno.h>

#include "fake_engine.h"
#include "unit.h"
#include "util.h"
#include "worker_owner.h"

enum { CHUNKS = 32, CHUNK = 4096, MS = 1000 * 1000 };

static uint8_t data[1024 * 1024];

static struct fake_peer *peer_of(struct conn *c)
{
	return c->engine_state;
}

static void end_service(struct conn *c)
{
	if (peer_of(c))
		peer_of(c)->service_end = 1 + c->end;
}

static void answer(struct conn *c)
{
	bufq_splice(&c->tx, &c->rx);
}

static void keep(struct conn *c)
{
	(void)c;
}

static const struct service answering = { .name = "answer", .run = answer, .close = end_service };
static const struct service keeping = { .name = "keep", .run = keep, .close = end_service };

/* The state of a test: before its set-up the service, then the fake engine that runs it. */
static int start(void **state)
{
	*state = fake_start(*state, CHUNKS, CHUNK, 0);
	return 0;
}

static int stop(void **state)
{
	fake_stop(*state);
	return 0;
}

#define CONN_TEST(name, start, service) TEST_WITH(name, start, stop, &(service))

static int fill_data(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 31 + i / 256 * 7);
	return 0;
}

/* Ends the connection from inside run(), twice. */
static void hang_up(struct conn *c)
{
	if (!c->rx.bytes)
		return;
	conn_close(c, CONN_END_PROTOCOL);
	conn_close(c, CONN_END_RESET);
}

static int refuse(struct conn *c)
{
	(void)c;
	return -ENOMEM;
}

static const struct service hanging = { .name = "hang", .run = hang_up, .close = end_service };
static const struct service refusing = {
	.name = "refuse", .open = refuse, .run = keep, .close = end_service
};

/* ---- Fate ---- */

CONN_TEST(half_close_waits_for_operations_in_flight, start, answering)
{
	struct fake *f = *state;
	struct fake_peer *p = fake_connect(f);

	fake_hold(p);
	fake_eof(f, p);
	fake_settle(f);
	assert_non_null(p->conn);
	assert_int_equal(p->closes, 0);
	fake_unhold(p);
	fake_settle(f);
	assert_null(p->conn);
}

CONN_TEST(close_is_idempotent_and_the_first_reason_stays, start, hanging)
{
	struct fake *f = *state;
	struct fake_peer *p = fake_connect(f);

	fake_hold(p);
	fake_send(f, p, data, 1);
	fake_settle(f);
	conn_close(p->conn, CONN_END_IDLE);
	conn_failed(p->conn, ECONNRESET);
	assert_int_equal(p->closes, 1);
	fake_settle(f);
	fake_unhold(p);
	fake_settle(f);
	assert_null(p->conn);
	assert_int_equal(p->service_end, 1 + CONN_END_PROTOCOL);
	assert_int_equal(stat_load(f->worker.stats.closed_protocol), 1);
	assert_int_equal(stat_load(f->worker.stats.closed_reset), 0);
}

CONN_TEST(it_is_freed_only_when_nothing_is_pending, start, answering)
{
	struct fake *f = *state;
	struct fake_peer *p = fake_connect(f);

	fake_hold(p);
	fake_hold(p);
	fake_reset(f, p);
	for (unsigned i = 0; i < 5; i++) {
		fake_settle(f);
		assert_non_null(p->conn);
		assert_int_equal(p->service_end, 0);
	}
	fake_unhold(p);
	fake_settle(f);
	assert_non_null(p->conn);
	fake_unhold(p);
	fake_settle(f);
	assert_null(p->conn);
	assert_int_equal(f->released, 1);
}

CONN_TEST(a_reset_while_sending_frees_what_was_queued, start, answering)
{
	struct fake *f = *state;
	struct fake_peer *p = fake_connect(f);

	f->completion = true;
	p->room = 0;
	fake_send(f, p, data, CHUNK);
	fake_settle(f);
	fake_send(f, p, data, CHUNK);
	fake_settle(f);
	assert_true(p->conn->sending.bytes > 0 && p->conn->tx.bytes > 0);
	fake_reset(f, p);
	fake_settle(f);
	assert_null(p->conn);
	assert_int_equal(fake_chunks_used(f), 0);
	assert_int_equal(stat_load(f->worker.stats.closed_reset), 1);
}

CONN_TEST(a_connection_is_uncounted_after_it_released_everything, start, keeping)
{
	struct fake *f = *state;
	struct fake_peer *p = fake_connect(f);

	fake_send(f, p, data, CHUNK);
	fake_settle(f);
	assert_int_equal(stat_load(f->worker.stats.chunks_free), CHUNKS - 1);
	fake_reset(f, p);
	fake_settle(f);
	assert_int_equal(f->open_then, 1);
	assert_int_equal(f->free_then, CHUNKS);
	assert_int_equal(stat_load(f->worker.stats.open), 0);
}

CONN_TEST(input_after_the_end_is_counted_and_dropped, start, keeping)
{
	struct fake *f = *state;
	struct fake_peer *p = fake_connect(f);

	fake_hold(p);
	fake_reset(f, p);
	fake_send(f, p, data, 100);
	assert_int_equal(p->conn->rx.bytes, 0);
	assert_int_equal(p->conn->bytes_in, 100);
	assert_int_equal(fake_chunks_used(f), 0);
}

CONN_TEST(a_service_that_does_not_open_drops_the_connection, start, refusing)
{
	struct fake *f = *state;
	struct fake_peer *p = fake_connect(f);

	assert_null(p->conn);
	assert_null(f->worker.conns);
	assert_int_equal(p->service_end, 0); /* close() answers open() */
	assert_int_equal(f->admitted, 1);
	assert_int_equal(f->released, 1);
	assert_int_equal(stat_load(f->worker.stats.closed_error), 1);
}

/* Wants a chunk of its own for each byte. */
static void hoard(struct conn *c)
{
	struct pool *p = &c->worker->pool;

	while (c->rx.bytes) {
		struct chunk *k = chunk_get(p);

		if (!k) {
			conn_wait_for_memory(c);
			return;
		}
		bufq_drop(p, &c->rx, 1);
		bufq_push(&c->tx, view_new(p, k, k->base, 1));
		chunk_put(p, k);
	}
}

static const struct service hoarding = { .name = "hoard", .run = hoard, .close = end_service };

/* A pool that is large enough for the largest held_max. */
static int start_large(void **state)
{
	*state = fake_start(*state, 1024, 16 * 1024, 0);
	return 0;
}

CONN_TEST(a_closing_connection_that_starves_is_freed_at_once, start, hoarding)
{
	struct fake *f = *state;
	struct fake_peer *greedy = fake_connect(f), *p = fake_connect(f);

	greedy->room = p->room = 0;
	fake_send(f, greedy, data, CHUNKS);
	fake_settle(f);
	fake_send(f, p, data, 1);
	fake_settle(f);
	assert_true(p->conn->flags & CONN_NO_MEMORY);
	fake_reset(f, p);
	fake_settle(f);
	assert_null(p->conn);
	assert_non_null(greedy->conn);
}

/* ---- Backpressure ---- */

CONN_TEST(input_is_paused_at_held_max_and_resumed_at_half, start_large, answering)
{
	struct fake *f = *state;
	struct fake_peer *p = fake_connect(f);
	size_t sent;

	p->room = 0;
	sent = fake_send_all(f, p, data, sizeof(data), 16 * 1024);
	assert_int_equal(sent, CONN_HELD_MAX);
	assert_false(p->receiving);
	assert_true(p->conn->flags & CONN_RECV_OFF);
	fake_take(f, p, CONN_HELD_MAX / 2 - 1);
	fake_settle(f);
	assert_false(p->receiving);
	fake_take(f, p, 1);
	fake_settle(f);
	assert_true(p->receiving);
	assert_int_equal(p->pauses, 1);
	assert_int_equal(stat_load(f->worker.stats.throttled), 1);
	fake_take(f, p, SIZE_MAX);
	fake_settle(f);
	assert_int_equal(p->out_bytes, sent);
	assert_memory_equal(p->out, data, sent);
}

CONN_TEST(many_small_views_pause_input_too, start_large, answering)
{
	struct fake *f = *state;
	struct fake_peer *p = fake_connect(f);
	size_t sent;

	p->room = 0;
	sent = fake_send_all(f, p, data, 10000, 1);
	assert_in_range(sent, 1, CONN_HELD_MAX / CONN_VIEW_BYTES);
	assert_false(p->receiving);
	fake_take(f, p, SIZE_MAX);
	fake_settle(f);
	assert_true(p->receiving);
}

CONN_TEST(single_bytes_that_the_service_keeps_share_chunks, start, keeping)
{
	struct fake *f = *state;
	struct fake_peer *p = fake_connect(f);

	assert_int_equal(fake_send_all(f, p, data, CHUNK, 1), CHUNK);
	assert_int_equal(p->conn->rx.bytes, CHUNK);
	assert_int_equal(p->conn->rx.views, 1);
	assert_int_equal(fake_chunks_used(f), 1);
	assert_memory_equal(p->conn->rx.head->data, data, CHUNK);
	assert_int_equal(stat_load(f->worker.stats.bytes_copied), CHUNK - 1);
}

CONN_TEST(packing_never_writes_into_a_shared_chunk, start, keeping)
{
	struct fake *f = *state;
	struct fake_peer *p = fake_connect(f);
	struct bufq front = { 0 };

	fake_send(f, p, data, 100);
	bufq_take(&f->worker.pool, &front, &p->conn->rx, 40);
	fake_send(f, p, data + 100, 50);
	assert_int_equal(p->conn->rx.views, 2);
	bufq_drop(&f->worker.pool, &front, 40);
	fake_send(f, p, data + 150, 50);
	assert_int_equal(p->conn->rx.bytes, 160);
}

/* ---- Starvation ---- */

CONN_TEST(a_starved_service_runs_again_without_new_input, start, hoarding)
{
	struct fake *f = *state;
	struct fake_peer *p = fake_connect(f);

	p->room = 0;
	fake_send(f, p, data, CHUNKS + 20);
	fake_settle(f);
	assert_true(p->conn->flags & CONN_NO_MEMORY);
	assert_true(p->conn->rx.bytes > 0);
	assert_int_equal(fake_settle(f), 1);
	fake_take(f, p, SIZE_MAX);
	fake_settle(f);
	assert_int_equal(p->conn->rx.bytes, 0);
	assert_int_equal(p->out_bytes, CHUNKS + 20);
	assert_true(stat_load(f->worker.stats.starved) >= 1);
}

CONN_TEST(an_exhausted_pool_lets_the_worker_sleep, start, hoarding)
{
	struct fake *f = *state;
	struct fake_peer *peers[8];

	/* Also at exactly the quarter at which connections are fed. */
	for (unsigned i = 0; i < ARRAY_SIZE(peers); i++) {
		peers[i] = fake_connect(f);
		peers[i]->room = 0;
		fake_send(f, peers[i], data, CHUNKS);
		fake_settle(f);
	}
	for (unsigned free = 0; free <= CHUNKS / 4; free++) {
		assert_in_range(fake_settle(f), 1, 2);
		assert_in_range(f->worker.pool.free_count, 0, CHUNKS / 4);
		fake_take(f, peers[0], 1);
	}
}

CONN_TEST(chunks_that_the_kernel_holds_feed_no_service, start, hoarding)
{
	struct fake *f = *state;
	struct fake_peer *greedy = fake_connect(f), *p = fake_connect(f);
	struct chunk *lent[CHUNKS / 2];

	for (unsigned i = 0; i < ARRAY_SIZE(lent); i++)
		lent[i] = chunk_get(&f->worker.pool);
	f->worker.pool_posted = ARRAY_SIZE(lent);
	greedy->room = 0;
	fake_send(f, p, data, 1);
	fake_send(f, greedy, data, CHUNKS);
	p->room = 0;
	assert_in_range(fake_settle(f), 1, 3); /* does not spin */
	p->room = SIZE_MAX;
	fake_take(f, greedy, SIZE_MAX);
	fake_settle(f);
	assert_int_equal(f->worker.pressure.waiting, 0);
	assert_int_equal(greedy->out_bytes, CHUNKS);
	f->worker.pool_posted = 0;
	for (unsigned i = 0; i < ARRAY_SIZE(lent); i++)
		chunk_put(&f->worker.pool, lent[i]);
}

/* As an engine with an area (zero-copy receive) has it: the pool is empty of input, and does not
 * count. */
CONN_TEST(receives_wait_for_the_pages_of_an_area, start, keeping)
{
	struct fake *f = *state;
	struct fake_peer *p[3];

	f->worker.area = (struct worker_area){ .pages = CHUNKS };
	for (unsigned i = 0; i < ARRAY_SIZE(p); i++) {
		p[i] = fake_connect(f);
		conn_wait_to_receive(p[i]->conn);
	}
	assert_in_range(fake_settle(f), 1, 3); /* does not spin */
	assert_int_equal(f->worker.pressure.waiting, 3);
	f->worker.area.free = 2;
	fake_turn(f);
	f->worker.area.free = 0;
	fake_settle(f);
	assert_int_equal(f->worker.pressure.waiting, 1);
	assert_true(p[2]->conn->flags & CONN_NO_INPUT); /* the last one that came */
	f->worker.area.free = 1;
	fake_settle(f);
	assert_int_equal(f->worker.pressure.waiting, 0);
}

/* ---- conn_write() ---- */

CONN_TEST(writes_are_sent_in_order_and_packed, start, keeping)
{
	struct fake *f = *state;
	struct fake_peer *p = fake_connect(f);
	size_t written = 0;

	p->room = 0;
	for (size_t n = 1; written + n < 5 * CHUNK; n = n * 3 % 977 + 1) {
		assert_int_equal(conn_write(p->conn, data + written, n), 0);
		written += n;
	}
	assert_int_equal(p->conn->tx.bytes, written);
	assert_in_range(fake_chunks_used(f), 1, 7);
	fake_take(f, p, SIZE_MAX);
	fake_settle(f);
	assert_int_equal(p->out_bytes, written);
	assert_memory_equal(p->out, data, written);
}

CONN_TEST(an_exhausted_pool_writes_nothing_rather_than_a_part, start, keeping)
{
	struct fake *f = *state;
	struct fake_peer *p = fake_connect(f);
	struct chunk *taken[CHUNKS];
	unsigned count = 0;

	while (count < CHUNKS - 2 && (taken[count] = chunk_get(&f->worker.pool)) != NULL)
		count++;
	assert_int_equal(conn_write(p->conn, data, 4 * CHUNK), -ENOBUFS);
	assert_int_equal(p->conn->tx.bytes, 0);
	while (count > 0)
		chunk_put(&f->worker.pool, taken[--count]);
	assert_int_equal(conn_write(p->conn, data, 4 * CHUNK), 0);
	assert_int_equal(p->conn->tx.bytes, 4 * CHUNK);
}

ALL_TESTS_WITH(fill_data, NULL)
