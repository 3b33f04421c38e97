/* core/bulk.c: when a bulk receiver's mark is taken back, at which cost to the worker, and how busy
 * ones share a turn. */
#include "bulk.h"
#include "registry.h"
#include "service_case.h"

static struct service_case *busy(const uint8_t *piece)
{
	struct service_case *t = case_new(registry_service("discard"), 4, 2 * BULK_PIECE);

	for (size_t bytes = 0; bytes <= BULK_ALONE + 2 * BULK_PIECE; bytes += 2 * BULK_PIECE)
		case_input(t, piece, 2 * BULK_PIECE, 2 * BULK_PIECE);
	assert_true(t->conn->flags & CONN_RCVLOWAT);
	return t;
}

/* The worker may have thousands of silent connections: it does not look at them for the sink. */
TEST(only_a_bulk_receiver_arms_the_timer)
{
	static uint8_t piece[2 * BULK_PIECE];
	CLEANUP(case_free_p) struct service_case *t = busy(piece);
	struct worker *w = &t->worker;

	assert_false(deadline_is_armed(&t->conn->due.timer));
	assert_int_equal(w->bulk.timer.ns, w->turn.now_ns + BULK_MS * NS_PER_MS);
	w->turn.now_ns += BULK_MS * NS_PER_MS / 2;
	case_input(t, piece, 1, 1);
	w->turn.now_ns = w->bulk.timer.ns + (1 << DEADLINE_TICK_BITS);
	deadlines_run(&w->deadlines, w->turn.now_ns, UINT32_MAX);
	assert_true(t->conn->flags & CONN_RCVLOWAT);
	w->turn.now_ns = w->bulk.timer.ns + (1 << DEADLINE_TICK_BITS);
	deadlines_run(&w->deadlines, w->turn.now_ns, UINT32_MAX);
	assert_false(t->conn->flags & CONN_RCVLOWAT);
	assert_int_equal(w->deadlines.wake_ns, 0);
}

TEST(nothing_is_looked_at_after_the_end)
{
	static uint8_t piece[2 * BULK_PIECE];
	CLEANUP(case_free_p) struct service_case *t = busy(piece);

	conn_close(t->conn, CONN_END_RESET);
	case_turns(t);
	assert_null(t->conn);
	assert_null(t->worker.bulk.busy);
	assert_int_equal(t->worker.deadlines.wake_ns, 0);
}

/* ---- Several ---- */

enum { SINKS = 5, PIECE = CONN_HELD_MAX, TURNS = 20 };

static void open_more(struct service_case *t, struct conn **ret_conns)
{
	for (unsigned i = 0; i < SINKS; i++) {
		if (i > 0) {
			t->conn = NULL;
			case_connect(t);
		}
		ret_conns[i] = t->conn;
	}
}

/* A turn in which the first `count` have input, always in the same order; returns how many receive,
 * a piece each. */
static unsigned turn_of(struct service_case *t, struct conn **conns, unsigned count,
			unsigned *pieces)
{
	struct worker *w = &t->worker;
	size_t bytes = 0;
	unsigned receive = 0;

	stat_always_add(w->stats.turns, 1);
	for (unsigned i = 0; i < count; i++) {
		size_t share = bulk_share(conns[i]);

		if (share > 0) {
			share = MIN(share, (size_t)PIECE);
			bulk_received(conns[i], share);
			bytes += share;
			pieces[i]++;
			receive++;
		} else {
			assert_true(conns[i]->flags & CONN_READY);
		}
	}
	assert_true(bytes <= WORKER_TURN_BYTES);
	case_turns(t);
	w->turn.ran = count;
	return receive;
}

static void close_all(struct service_case *t)
{
	while (t->worker.conns) {
		conn_close(t->worker.conns, CONN_END_RESET);
		case_turns(t);
	}
	case_free(t);
}

TEST(the_connection_that_waited_longest_receives)
{
	struct service_case *t = case_new(registry_service("discard"), 4, PIECE);
	struct conn *conns[SINKS];
	unsigned pieces[SINKS] = { 0 };

	open_more(t, conns);
	turn_of(t, conns, SINKS, pieces); /* shows how many they are */
	for (unsigned turn = 0; turn < TURNS; turn++) {
		assert_true(turn_of(t, conns, SINKS, pieces) > 0);
		for (unsigned i = 1; i < SINKS; i++)
			assert_in_range(pieces[i] + 1, pieces[0], pieces[0] + 2);
	}
	assert_true(pieces[0] >= TURNS / SINKS);
	close_all(t);
}

TEST(a_lone_bulk_receiver_has_the_whole_turn)
{
	CLEANUP(case_free_p)
	struct service_case *t = case_new(registry_service("discard"), 4, PIECE);

	for (unsigned turn = 0; turn < 3; turn++) {
		stat_always_add(t->worker.stats.turns, 1);
		t->worker.turn.ran = 1;
		assert_int_equal(bulk_share(t->conn), WORKER_TURN_BYTES);
	}
}

TEST(a_new_bulk_receiver_has_not_waited)
{
	static uint8_t piece[2 * BULK_PIECE];
	CLEANUP(case_free_p)
	struct service_case *t = case_new(registry_service("discard"), 4, 2 * BULK_PIECE);

	stat_always_add(t->worker.stats.turns, 1000);
	for (unsigned i = 0; i < 2; i++) {
		case_input(t, piece, 2 * BULK_PIECE, 2 * BULK_PIECE);
		assert_true(t->conn->flags & CONN_BULK);
		assert_int_equal(t->conn->bulk_turn, 1000);
		stat_always_add(t->worker.stats.turns, 1);
	}
}

/* The receiver whose turn it would be has ended, or its input is paused. */
TEST(a_client_that_has_left_stops_no_other)
{
	struct service_case *t = case_new(registry_service("discard"), 4, PIECE);
	struct conn *conns[SINKS];
	unsigned pieces[SINKS] = { 0 };

	open_more(t, conns);
	for (unsigned turn = 0; turn < 2 || pieces[SINKS - 1] == pieces[0]; turn++)
		turn_of(t, conns, SINKS, pieces);
	assert_true(turn_of(t, conns, SINKS - 1, pieces) + turn_of(t, conns, SINKS - 1, pieces) >
		    0);
	for (unsigned turn = 0; turn < TURNS; turn++)
		assert_true(turn_of(t, conns, SINKS - 1, pieces) > 0);
	close_all(t);
}
