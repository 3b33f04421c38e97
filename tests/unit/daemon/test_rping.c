/* service/rping*.c: the data read is written back, replies come after both, and no order of events
 * keeps a chunk. */
#include <endian.h>

#include "pressure.h"
#include "registry.h"
#include "rping/proto.h"
#include "service_case.h"

enum { CHUNKS = 32, CHUNK = 4096, SIZE = 10000 };

struct peer {
	struct service_case *at;
	uint8_t source[RPING_SIZE_MAX], sink[RPING_SIZE_MAX];
	uint32_t free; /* chunks at first */
};

static struct peer *start(void)
{
	struct peer *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	for (unsigned i = 0; i < sizeof(p->source); i++)
		p->source[i] = (uint8_t)(i * 31 + i / 256);
	p->at = case_new(registry_service("rping"), CHUNKS, CHUNK);
	p->free = p->at->worker.pool.free_count;
	return p;
}

/* Every chunk is back, but for one that the worker writes into. */
static void stop(struct peer *p)
{
	struct worker *w = &p->at->worker;

	if (p->at->conn)
		conn_close(p->at->conn, CONN_END_DRAIN);
	while (p->at->remote_count > 0)
		case_remote(p->at, -ECANCELED);
	case_turns(p->at);
	assert_null(p->at->conn);
	assert_int_equal(w->pool.free_count + (w->scratch != NULL), p->free);
	case_free(p->at);
	free(p);
}

CLEANUP_OF(struct peer *, stop)

static void advertise(struct peer *p, const void *memory, uint32_t size)
{
	uint64_t address = htobe64((uintptr_t)memory);
	uint32_t key = htobe32(7), be_size = htobe32(size);
	uint8_t message[RPING_MESSAGE];

	memcpy(message, &address, 8);
	memcpy(message + 8, &key, 4);
	memcpy(message + 12, &be_size, 4);
	case_input(p->at, message, sizeof(message), sizeof(message));
}

static void check_replies(const struct peer *p, size_t count)
{
	assert_int_equal(p->at->out_bytes, count * RPING_MESSAGE);
}

static void ping(struct peer *p, uint32_t size)
{
	size_t replies = p->at->out_bytes / RPING_MESSAGE;

	memset(p->sink, 0, sizeof(p->sink));
	advertise(p, p->source, size);
	check_replies(p, replies);
	assert_int_equal(p->at->remotes[0]->data.bytes, size);
	case_remote(p->at, 0);
	check_replies(p, replies + 1);
	advertise(p, p->sink, size);
	check_replies(p, replies + 2); /* behind the write, with the engine */
	case_remote(p->at, 0);
	assert_memory_equal(p->sink, p->source, size);
	assert_true(size == sizeof(p->sink) || p->sink[size] == 0);
}

TEST(every_size_comes_back)
{
	static const uint32_t sizes[] = { 1, 2, 16, 64, 4095, 4096, 4097, SIZE, 65535, 64 };
	CLEANUP(stop_p) struct peer *p = start();

	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++)
		ping(p, sizes[i]);
	assert_int_equal(stat_load(p->at->worker.stats.operations[0].count), ARRAY_SIZE(sizes));
	assert_int_equal(stat_load(p->at->worker.stats.operations[1].count), ARRAY_SIZE(sizes));
	assert_int_equal(p->at->conn->bytes_in, p->at->conn->bytes_out);
}

/* The client has been told before the write is known to be done. */
TEST(next_source_is_read_while_the_write_is_in_flight)
{
	CLEANUP(stop_p) struct peer *p = start();

	advertise(p, p->source, SIZE);
	case_remote(p->at, 0);
	advertise(p, p->sink, SIZE);
	advertise(p, p->source + 1, 100);
	assert_int_equal(p->at->remote_count, 2);
	assert_int_equal(p->at->remotes[1]->kind, REMOTE_READ);
	case_remote(p->at, 0);
	assert_memory_equal(p->sink, p->source, SIZE);
	case_remote(p->at, 0);
	advertise(p, p->sink, 100);
	case_remote(p->at, 0);
	assert_memory_equal(p->sink, p->source + 1, 100);
	check_replies(p, 4);
}

TEST(small_sink_receives_the_beginning)
{
	CLEANUP(stop_p) struct peer *p = start();

	advertise(p, p->source, SIZE);
	case_remote(p->at, 0);
	advertise(p, p->sink, 5000);
	case_remote(p->at, 0);
	assert_memory_equal(p->sink, p->source, 5000);
	assert_int_equal(p->sink[5000], 0);
}

TEST(messages_that_come_early_wait)
{
	CLEANUP(stop_p) struct peer *p = start();

	advertise(p, p->source, SIZE);
	advertise(p, p->sink, SIZE);
	assert_int_equal(p->at->remote_count, 1);
	case_remote(p->at, 0);
	assert_int_equal(p->at->remote_count, 1);
	case_remote(p->at, 0);
	check_replies(p, 2);
	assert_memory_equal(p->sink, p->source, SIZE);
}

TEST(empty_pool_delays_a_read)
{
	CLEANUP(stop_p) struct peer *p = start();
	struct pool *pool = &p->at->worker.pool;
	struct chunk *taken[CHUNKS];
	unsigned n = 0;

	while (pool->free_count > 2)
		taken[n++] = chunk_get(pool);
	advertise(p, p->source, SIZE);
	assert_int_equal(p->at->remote_count, 0);
	assert_true(p->at->conn->flags & CONN_NO_MEMORY);
	while (n > 0)
		chunk_put(pool, taken[--n]);
	pressure_end_wait(p->at->conn);
	conn_ready(p->at->conn);
	case_turns(p->at);
	case_remote(p->at, 0);
	check_replies(p, 1);
}

TEST(other_messages_end_the_connection)
{
	static const struct {
		uint32_t size;
		size_t bytes;
	} bad[] = {
		{ 0, 16 }, { 65536, 16 }, { UINT32_MAX, 16 }, { 64, 15 }, { 64, 17 }, { 64, 1 }
	};

	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		CLEANUP(stop_p) struct peer *p = start();
		uint8_t message[32] = { 0 };
		uint32_t size = htobe32(bad[i].size);

		memcpy(message + 12, &size, 4);
		case_input(p->at, message, bad[i].bytes, bad[i].bytes);
		assert_null(p->at->conn);
		assert_int_equal(p->at->ends[CONN_END_PROTOCOL], 1);
	}
}

TEST(connections_may_end_at_any_time)
{
	for (unsigned steps = 0; steps < 6; steps++) {
		CLEANUP(stop_p) struct peer *p = start();

		for (unsigned i = 0; i < steps; i++) {
			if (i % 3 == 1)
				case_remote(p->at, 0);
			else
				advertise(p, p->source, SIZE);
		}
		conn_eof(p->at->conn); /* with messages that were not looked at */
		advertise(p, p->source, SIZE);
	}
}
