/* What becomes of those who hold the chunks that others wait for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fake_engine.h"
#include "service.h"

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
	} while (!f->worker.starved);
	f->room = SIZE_MAX;
	return count;
}

static void who_takes_nothing_while_others_wait_is_closed(void **state)
{
	struct fake *f = fake_start(&service_echo, CHUNKS, CHUNK, 0);
	struct fake_peer *peers[CHUNKS];
	unsigned count = fill(f, peers);

	(void)state;
	fake_turn(f); /* the first look */
	assert_true(f->worker.relief_ns > f->worker.now_ns);
	fake_take(f, peers[0], 1); /* slow, but alive */
	fake_settle(f);
	assert_true(f->worker.starved != NULL);
	f->worker.relief_ns = 1; /* a little time passes */
	fake_settle(f);
	for (unsigned i = 0; i < count; i++)
		assert_non_null(peers[i]->conn);
	f->worker.relief_ns = f->worker.patience_ns = 1; /* and more */
	fake_settle(f);
	assert_non_null(peers[0]->conn);
	for (unsigned i = 1; i < count; i++)
		assert_true(!peers[i]->conn || peers[i]->conn->tx.bytes == 0);
	assert_null(f->worker.starved);
	fake_stop(f);
}

static void a_few_bytes_of_input_share_a_chunk_when_others_wait(void **state)
{
	struct fake *f = fake_start(&service_whole, CHUNKS, CHUNK, 0);
	struct fake_peer *peers[4 * CHUNKS];

	(void)state;
	for (unsigned i = 0; i < 4 * CHUNKS; i++) { /* each would hold a chunk */
		peers[i] = fake_connect(f);
		if (fake_send(f, peers[i], "a few", 5) > 0)
			continue;
		f->worker.relief_ns = 1; /* some time has passed since the last look */
		fake_settle(f);
		assert_int_equal(fake_send(f, peers[i], "a few", 5), 5);
	}
	for (unsigned i = 0; i < 4 * CHUNKS; i++)
		assert_memory_equal(peers[i]->conn->rx.head->data, "a few", 5);
	fake_stop(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_takes_nothing_while_others_wait_is_closed),
		cmocka_unit_test(a_few_bytes_of_input_share_a_chunk_when_others_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
