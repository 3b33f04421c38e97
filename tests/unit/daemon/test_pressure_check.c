/* The end of connections that hold the chunks that others wait for. */
#include "fake_engine.h"
#include "service.h"
#include "unit.h"

CLEANUP_OF(struct fake *, fake_stop)

enum { CHUNKS = 16, CHUNK = 4096 };

extern const struct service service_echo;

/* Takes nothing before it has all of a message of 1000 bytes, and then drops it. */
static void whole_run(struct conn *c)
{
	if (c->rx.bytes >= 1000)
		bufq_drop(&c->worker->pool, &c->rx, c->rx.bytes);
}

static const struct service service_whole = {
	.name = "whole",
	.operations = { "message" },
	.run = whole_run,
};

static bool reads_begin;

/* Each byte is a read, whose answer holds no chunk. */
static void reads_run(struct conn *c)
{
	while (c->rx.head && reads_begin) {
		if (conn_read_share(c, 1, 1) == 0) {
			conn_wait_for_memory(c);
			return;
		}
		bufq_drop(&c->worker->pool, &c->rx, 1);
	}
}

static const struct service service_reads = {
	.name = "reads",
	.operations = { "read" },
	.run = reads_run,
};

/* Peers that take nothing, and send until somebody waits for chunks. */
static unsigned fill(struct fake *f, struct fake_peer *peers[CHUNKS])
{
	uint8_t data[CHUNK] = { 0 };
	unsigned count = 0;

	f->room = 0;
	do {
		assert_true(count < CHUNKS);
		peers[count] = fake_connect(f);
		while (fake_send(f, peers[count], data, sizeof(data)))
			fake_settle(f);
		count++;
	} while (!f->worker.pressure.waiting);
	f->room = SIZE_MAX;
	return count;
}

/* The time of one look at connections that hold chunks passes. */
static void look(struct fake *f)
{
	deadline_set(&f->worker.deadlines, &f->worker.pressure.timer, 1, f->worker.turn.now_ns);
	fake_settle(f);
	assert_true(f->worker.pressure.next_check_ns > f->worker.turn.now_ns ||
		    !f->worker.pressure.waiting);
}

TEST(a_peer_that_reads_nothing_while_others_wait_is_closed)
{
	CLEANUP(fake_stop_p) struct fake *f = fake_start(&service_echo, CHUNKS, CHUNK, 0);
	struct fake_peer *peers[CHUNKS];
	unsigned count = fill(f, peers);

	for (unsigned i = 1; i < WORKER_PATIENCE; i++)
		look(f);
	for (unsigned i = 0; i < count; i++)
		assert_non_null(peers[i]->conn);
	fake_take(f, peers[0], 1); /* slow, but alive */
	look(f);
	assert_non_null(peers[0]->conn);
	for (unsigned i = 1; i < count; i++)
		assert_true(!peers[i]->conn || peers[i]->conn->tx.bytes == 0);
	assert_int_equal(f->worker.pressure.waiting, 0);
}

TEST(a_few_bytes_of_input_share_a_chunk_when_others_wait)
{
	CLEANUP(fake_stop_p) struct fake *f = fake_start(&service_whole, CHUNKS, CHUNK, 0);
	struct fake_peer *peers[4 * CHUNKS];

	for (unsigned i = 0; i < 4 * CHUNKS; i++) { /* each would hold a chunk */
		peers[i] = fake_connect(f);
		if (fake_send(f, peers[i], "a few", 5) > 0)
			continue;
		look(f);
		assert_int_equal(fake_send(f, peers[i], "a few", 5), 5);
	}
	for (unsigned i = 0; i < 4 * CHUNKS; i++)
		assert_memory_equal(peers[i]->conn->rx.head->data, "a few", 5);
}

/* Chunks that the test holds, so that only `left` can be received into. */
static unsigned hold(struct fake *f, struct chunk *held[CHUNKS], unsigned left)
{
	struct pool *p = &f->worker.pool;
	unsigned count = 0;

	while (p->free_count > p->keep / 2 + left)
		held[count++] = chunk_get(p);
	return count;
}

TEST(waiting_connections_are_served_in_order_and_before_newcomers)
{
	CLEANUP(fake_stop_p) struct fake *f = fake_start(&service_whole, CHUNKS, CHUNK, 0);
	struct fake_peer *peers[8], *newcomer;
	struct chunk *held[CHUNKS];
	unsigned count = hold(f, held, 0);

	for (unsigned i = 0; i < 8; i++) {
		peers[i] = fake_connect(f);
		assert_int_equal(fake_send(f, peers[i], "a few", 5), 0);
	}
	newcomer = fake_connect(f);
	for (unsigned i = 0; i < 8; i++) {
		fake_settle(f);
		if (i < 2) /* a chunk to share, and one that each may be granted */
			chunk_put(&f->worker.pool, held[--count]);
		assert_int_equal(fake_send(f, newcomer, "a few", 5), 0);
		fake_settle(f);
		for (unsigned j = i + 1; j < 8; j++)
			assert_int_equal(fake_send(f, peers[j], "a few", 5), 0);
		assert_int_equal(fake_send(f, newcomer, "a few", 5), 0);
		assert_int_equal(fake_send(f, peers[i], "a few", 5), 5);
	}
	fake_settle(f);
	assert_int_equal(fake_send(f, newcomer, "a few", 5), 5);
	assert_int_equal(f->worker.pressure.waiting, 0);
	while (count > 0)
		chunk_put(&f->worker.pool, held[--count]);
	fake_settle(f);
}

/* All chunks but the few that reads leave hold input, too much to be joined. */
TEST(reads_are_answered_although_their_input_holds_the_pool)
{
	CLEANUP(fake_stop_p) struct fake *f = fake_start(&service_reads, 4 * CHUNKS, CHUNK, 0);
	struct pool *p = &f->worker.pool;
	struct fake_peer *peers[4];
	struct chunk *held[4 * CHUNKS];
	uint8_t data[CHUNK / 2] = { 0 };
	unsigned count = 0;

	reads_begin = false;
	for (unsigned i = 0; i < 4; i++) {
		peers[i] = fake_connect(f);
		assert_int_equal(fake_send(f, peers[i], data, sizeof(data)), sizeof(data));
	}
	fake_settle(f);
	while (p->free_count > p->keep / 4)
		held[count++] = chunk_get(p);
	reads_begin = true;
	for (unsigned i = 0; i < 4; i++)
		conn_ready(peers[i]->conn);
	fake_settle(f);
	look(f);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(peers[i]->conn->rx.bytes, 0);
	assert_int_equal(f->worker.pressure.waiting, 0);
	while (count > 0)
		chunk_put(p, held[--count]);
	fake_settle(f);
}

/* Many clients send and never read, and their sockets take no more: each pins at most one
 * view of the reserve. */
TEST(scarce_chunks_are_shared_by_many_connections)
{
	CLEANUP(fake_stop_p) struct fake *f = fake_start(&service_echo, CHUNKS, CHUNK, 0);
	struct pool *p = &f->worker.pool;
	struct fake_peer *peers[CONN_RESERVE_PARTS];
	struct chunk *held[CHUNKS];
	unsigned count = hold(f, held, 2);
	uint8_t data[CHUNK] = { 0 };

	f->room = 0;
	for (unsigned i = 0; i < CONN_RESERVE_PARTS; i++) {
		peers[i] = fake_connect(f);
		assert_int_equal(fake_send(f, peers[i], data, CHUNK), CHUNK / CONN_RESERVE_PARTS);
		fake_settle(f);
		assert_int_equal(fake_send(f, peers[i], data, CHUNK), 0);
		assert_int_equal(p->free_count, p->keep / 2 + 1);
	}
	while (count > 0)
		chunk_put(p, held[--count]);
}

TEST(an_unused_grant_goes_to_the_next_connection)
{
	CLEANUP(fake_stop_p) struct fake *f = fake_start(&service_whole, CHUNKS, CHUNK, 0);
	struct fake_peer *peers[3];
	struct chunk *held[CHUNKS];
	unsigned count = hold(f, held, 0);

	for (unsigned i = 0; i < 3; i++) {
		peers[i] = fake_connect(f);
		assert_int_equal(fake_send(f, peers[i], "a few", 5), 0);
	}
	chunk_put(&f->worker.pool, held[--count]);
	fake_settle(f);
	assert_int_equal(f->worker.pressure.granted, 1);
	fake_reset(f, peers[0]); /* it ends */
	fake_settle(f);
	assert_int_equal(f->worker.pressure.granted, 1);
	look(f); /* has nothing to receive after all */
	fake_settle(f);
	assert_int_equal(fake_send(f, peers[2], "a few", 5), 5);
	while (count > 0)
		chunk_put(&f->worker.pool, held[--count]);
	fake_settle(f);
}

TEST(a_connection_that_waits_soon_after_others_is_served)
{
	CLEANUP(fake_stop_p) struct fake *f = fake_start(&service_whole, CHUNKS, CHUNK, 0);
	struct fake_peer *peer = fake_connect(f);
	struct chunk *held[CHUNKS];
	unsigned count = hold(f, held, 0);

	f->worker.pressure.next_check_ns = clock_ns() + NS_PER_S; /* it has looked lately */
	assert_int_equal(fake_send(f, peer, "a few", 5), 0);
	fake_settle(f);
	assert_int_equal(f->worker.pressure.timer.ns, f->worker.pressure.next_check_ns);
	while (count > 0)
		chunk_put(&f->worker.pool, held[--count]);
	fake_turn(f);
}

/* The bound: half a second, however many peers hold all chunks and have read nothing for a second.
 * Peers that stall for less are not closed. */
TEST(stalled_peers_are_closed_sooner_while_no_waiter_is_served)
{
	CLEANUP(fake_stop_p) struct fake *f = fake_start(&service_echo, CHUNKS, CHUNK, 0);
	struct fake_peer *peers[CHUNKS], *polite;
	struct chunk *held[CHUNKS];
	unsigned count = fill(f, peers), held_count = hold(f, held, 0);

	fake_settle(f);
	polite = fake_connect(f);
	assert_int_equal(fake_send(f, polite, "polite", 6), 0);
	for (unsigned i = 0; i <= 2 * WORKER_PATIENCE_STUCK; i++) {
		for (unsigned j = 0; j < count; j++) { /* they stall, for half a second now */
			assert_non_null(peers[j]->conn);
			peers[j]->conn->active_ns = clock_ns() - NS_PER_S / 2;
		}
		assert_int_equal(polite->out_bytes, 0);
		look(f);
	}
	for (unsigned i = 0; i < count; i++)
		peers[i]->conn->active_ns = clock_ns() - 2 * WORKER_STALL_NS;
	look(f);
	look(f);
	assert_int_equal(fake_send(f, polite, "polite", 6), 6);
	fake_settle(f);
	assert_int_equal(polite->out_bytes, 6);
	for (unsigned i = 0; i < count; i++)
		assert_true(!peers[i]->conn || peers[i]->conn->tx.bytes == 0);
	while (held_count > 0)
		chunk_put(&f->worker.pool, held[--held_count]);
}

/* All of its output is in a zero-copy send. */
TEST(a_peer_that_never_acknowledges_a_zero_copy_send_is_closed)
{
	CLEANUP(fake_stop_p) struct fake *f = fake_start(&service_whole, CHUNKS, CHUNK, 0);
	struct fake_peer *slow = fake_connect(f), *never = fake_connect(f),
			 *waits = fake_connect(f);
	struct chunk *held[CHUNKS];
	unsigned count = hold(f, held, 0);

	fake_settle(f);
	assert_int_equal(fake_send(f, waits, "a few", 5), 0);
	slow->conn->bytes_out = never->conn->bytes_out = CHUNK;
	slow->conn->pinned_bytes = never->conn->pinned_bytes = CHUNK;
	for (unsigned i = 0; i <= WORKER_PATIENCE; i++) {
		assert_non_null(never->conn);
		slow->conn->pinned_bytes--;
		look(f);
	}
	assert_null(never->conn);
	assert_non_null(slow->conn);
	while (count > 0)
		chunk_put(&f->worker.pool, held[--count]);
}

/* One chunk is then enough for it: the one that peers that do not read must leave to others. */
TEST(a_peer_that_reads_again_no_longer_waits_behind_its_output)
{
	for (unsigned completion = 0; completion <= 1; completion++) {
		CLEANUP(fake_stop_p) struct fake *f = fake_start(&service_echo, CHUNKS, CHUNK, 0);
		struct fake_peer *peers[CHUNKS], *last;
		struct chunk *held[CHUNKS];
		unsigned count, held_count;

		f->completion = completion;
		count = fill(f, peers);
		held_count = hold(f, held, 1);
		last = peers[count - 1];
		deadline_set(&f->worker.deadlines, &f->worker.pressure.timer,
			     clock_ns() + 3600 * (uint64_t)NS_PER_S, f->worker.turn.now_ns);
		fake_settle(f);
		assert_true(last->conn->flags & CONN_NO_MEMORY);
		assert_int_equal(f->worker.pressure.first, 0);
		fake_take(f, last, SIZE_MAX);
		fake_settle(f);
		assert_false(last->conn->flags & CONN_NO_MEMORY);
		while (held_count > 0)
			chunk_put(&f->worker.pool, held[--held_count]);
	}
}
