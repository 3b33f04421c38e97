/* core/conn.c and worker_turn.c: how connections end, drains and timers, over an engine without a
 * kernel.
 */
#include "conn_case.h"

CLEANUP_OF(struct fake *, fake_stop)

/* Sends a byte whenever tx is empty, for ever. */
static void pour(struct conn *c)
{
	if (!c->tx.bytes && !c->sending.bytes && !c->worker->drain.on)
		(void)conn_write(c, "x", 1);
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

static const struct service pouring = {
	.name = "pour", .run = pour, .close = end_service, .flags = SERVICE_SENDS_FIRST
};
static const struct service hanging = { .name = "hang", .run = hang_up, .close = end_service };
static const struct service refusing = {
	.name = "refuse", .open = refuse, .run = keep, .close = end_service
};

/* ---- Fate ---- */

CONN_TEST(half_close_answers_everything, start, answering)
{
	struct fake *f = *state;

	for (unsigned completion = 0; completion < 2; completion++) {
		struct fake_peer *p = fake_connect(f);

		f->completion = completion;
		p->send_max = 100;
		p->room = 0;
		fake_send(f, p, data, 3000);
		fake_eof(f, p);
		fake_settle(f);
		assert_non_null(p->conn);
		assert_int_equal(p->closes, 0);
		fake_take(f, p, 1000);
		fake_settle(f);
		assert_non_null(p->conn);
		fake_take(f, p, SIZE_MAX);
		while (p->conn && p->out_bytes < 3000) {
			conn_ready(p->conn);
			fake_settle(f);
		}
		assert_null(p->conn);
		assert_int_equal(p->out_bytes, 3000);
		assert_memory_equal(p->out, data, 3000);
		assert_int_equal(p->service_end, 1 + CONN_END_PEER);
	}
	assert_int_equal(stat_load(f->worker.stats.closed_peer), 2);
}

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

CONN_TEST(a_refused_connection_is_not_released, start, answering)
{
	struct fake *f = *state;

	f->admit = -EUSERS;
	assert_null(fake_connect(f)->conn);
	f->admit = -EACCES;
	assert_null(fake_connect(f)->conn);
	assert_int_equal(f->released, 0);
	assert_int_equal(stat_load(f->worker.stats.refused_limit), 1);
	assert_int_equal(stat_load(f->worker.stats.refused_denied), 1);
	assert_int_equal(stat_load(f->worker.stats.accepted), 0);
	f->admit = 0;
	assert_non_null(fake_connect(f)->conn);
}

/* ---- Sources, drain, time ---- */

CONN_TEST(a_source_runs_again_when_tx_has_drained, start, pouring)
{
	struct fake *f = *state;

	for (unsigned completion = 0; completion < 2; completion++) {
		struct fake_peer *p;

		f->completion = completion;
		f->room = 0;
		p = fake_connect(f);
		assert_int_equal(p->out_bytes, 0);
		fake_take(f, p, 100);
		fake_settle(f);
		assert_int_equal(p->room, 0);
		assert_int_equal(p->out_bytes, 100);
		fake_reset(f, p);
		fake_settle(f);
	}
}

CONN_TEST(drain_answers_what_was_received, start, answering)
{
	struct fake *f = *state;
	struct fake_peer *p = fake_connect(f);

	p->room = 0;
	fake_send(f, p, data, 2000);
	fake_settle(f);
	worker_request(&f->worker, REQUEST_DRAIN, clock_ns() + 3600ULL * NS_PER_S);
	fake_settle(f);
	assert_non_null(p->conn);
	assert_int_equal(f->drained, 0);
	fake_take(f, p, SIZE_MAX);
	fake_eof(f, p);
	fake_settle(f);
	assert_null(p->conn);
	assert_int_equal(p->out_bytes, 2000);
	assert_int_equal(f->drained, 1);
	fake_settle(f);
	assert_int_equal(f->drained, 1);
}

CONN_TEST(the_drain_deadline_ends_even_a_busy_connection, start, answering)
{
	struct fake *f = *state;
	struct fake_peer *p = fake_connect(f);

	p->room = 0;
	fake_send(f, p, data, 2000);
	fake_settle(f);
	worker_request(&f->worker, REQUEST_DRAIN, clock_ns());
	fake_settle(f);
	assert_null(p->conn);
	assert_int_equal(p->service_end, 1 + CONN_END_DRAIN);
	assert_int_equal(f->drained, 1);
}

/* Turns until the connection has ended, for ten seconds at the most. */
static void await_end(struct fake *f, const struct fake_peer *p)
{
	uint64_t end_ns = clock_ns() + 10ULL * NS_PER_S;

	while (p->conn && clock_ns() < end_ns)
		fake_turn(f);
	assert_null(p->conn);
}

TEST(a_silent_connection_ends_after_its_idle_timeout)
{
	CLEANUP(fake_stop_p) struct fake *f = fake_start(&answering, CHUNKS, CHUNK, 20 * MS);
	uint64_t before = clock_ns();
	struct fake_peer *p = fake_connect(f);

	assert_true(f->worker.deadlines.wake_ns > 0);
	await_end(f, p);
	assert_true(clock_ns() - before >= 20 * MS);
	assert_int_equal(p->service_end, 1 + CONN_END_IDLE);
	fake_settle(f);
	assert_int_equal(f->worker.deadlines.wake_ns, 0); /* nobody left: sleeps for ever */
}

CONN_TEST(an_idle_timeout_that_is_set_later_counts, start, answering)
{
	struct fake *f = *state;
	struct fake_peer *p = fake_connect(f);

	fake_settle(f);
	assert_int_equal(f->worker.deadlines.wake_ns, 0);
	worker_request(&f->worker, REQUEST_IDLE_TIMEOUT, 20 * MS);
	fake_turn(f);
	await_end(f, p);
	assert_int_equal(p->service_end, 1 + CONN_END_IDLE);
}

CONN_TEST(without_timers_the_worker_sleeps_for_ever, start, answering)
{
	struct fake *f = *state;
	struct fake_peer *p = fake_connect(f);

	fake_send(f, p, data, 100);
	fake_settle(f);
	assert_true(f->slept);
	assert_int_equal(f->worker.deadlines.wake_ns, 0);
	assert_int_equal(fake_settle(f), 1);
}

ALL_TESTS_WITH(fill_data, NULL)
