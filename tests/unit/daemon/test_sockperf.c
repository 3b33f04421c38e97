/* service/sockperf*.c: what comes back, what counts, what ends the connection, however it is cut.
 */
#include <endian.h>

#include "registry.h"
#include "service_case.h"
#include "sockperf/proto.h"

enum { PING = SOCKPERF_CLIENT | SOCKPERF_PONG_REQUEST, CHUNKS = 64, CHUNK = 4096 };

struct stream {
	uint8_t data[300000], expected[300000];
	size_t bytes, expected_bytes, counted, pongs;
};

/* A message of `length` bytes, and the expected answer. */
static void stream_add(struct stream *s, unsigned flags, uint32_t length)
{
	uint64_t sequence = htobe64(s->bytes + 1);
	uint16_t be_flags = htobe16((uint16_t)flags);
	uint32_t be_length = htobe32(length);
	uint8_t *m = s->data + s->bytes;

	assert_true(s->bytes + length <= sizeof(s->data));
	for (uint32_t i = SOCKPERF_HEADER; i < length; i++)
		m[i] = (uint8_t)(i * 7 + s->bytes);
	memcpy(m, &sequence, 8);
	memcpy(m + 8, &be_flags, 2);
	memcpy(m + 10, &be_length, 4);
	s->bytes += length;
	if (!(flags & SOCKPERF_CLIENT) || (flags & SOCKPERF_WARM_UP))
		return;
	if (!(flags & SOCKPERF_PONG_REQUEST)) {
		s->counted++;
		return;
	}
	s->pongs++;
	memcpy(s->expected + s->expected_bytes, m, length);
	s->expected[s->expected_bytes + 9] &= (uint8_t)~SOCKPERF_CLIENT;
	s->expected_bytes += length;
}

static struct stream *stream_new(void)
{
	static const unsigned flags[] = {
		PING, PING, SOCKPERF_CLIENT,         0x8000 | PING, 7, 5, 4, 2, 0,
		PING, PING, 0xfff8 | SOCKPERF_CLIENT
	};
	static const uint32_t lengths[] = { 14, 15, 14, 100, 4096, 14, 9000, 28, 1000, 20000 };
	struct stream *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	for (unsigned i = 0; i < 60; i++)
		stream_add(s, flags[i % ARRAY_SIZE(flags)], lengths[i % ARRAY_SIZE(lengths)]);
	return s;
}

static uint64_t counted(struct service_case *t, unsigned operation)
{
	return stat_load(t->worker.stats.operations[operation].count);
}

static void assert_answered(struct service_case *t, const struct stream *s)
{
	assert_non_null(t->conn);
	assert_int_equal(t->out_bytes, s->expected_bytes);
	assert_memory_equal(t->out, s->expected, s->expected_bytes);
	assert_int_equal(counted(t, 0), s->pongs);
	assert_int_equal(counted(t, 1), s->counted);
	assert_int_equal(t->worker.pool.free_count, CHUNKS);
	case_free(t);
}

TEST(any_split_gives_the_same_bytes)
{
	static const size_t pieces[] = { 1, 2, 9, 10, 13, 14, 15, 100, 4095, 4096 };
	CLEANUP(free_p) struct stream *s = stream_new();

	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		struct service_case *t = case_new(registry_service("sockperf"), CHUNKS, CHUNK);

		case_input(t, s->data, s->bytes, pieces[i]);
		assert_answered(t, s);
	}
	for (unsigned seed = 0; seed < 50; seed++) {
		struct service_case *t = case_new(registry_service("sockperf"), CHUNKS, CHUNK);

		case_input_random(t, s->data, s->bytes, seed);
		assert_answered(t, s);
	}
}

TEST(a_slow_reader_gets_the_same_bytes)
{
	CLEANUP(free_p) struct stream *s = stream_new();
	struct service_case *t = case_new(registry_service("sockperf"), CHUNKS, CHUNK);

	t->room = 0;
	for (size_t at = 0; at < s->bytes; at += 1000) {
		case_input(t, s->data + at, MIN(s->bytes - at, (size_t)1000), 1000);
		case_take(t, 700);
	}
	case_take(t, SIZE_MAX);
	assert_answered(t, s);
}

TEST(a_length_that_cannot_be_ends_the_connection)
{
	static const uint32_t lengths[] = { 0,          1,         13, SOCKPERF_LENGTH_MAX + 1,
					    0x80000000, UINT32_MAX };

	for (size_t i = 0; i < 2 * ARRAY_SIZE(lengths); i++) {
		CLEANUP(case_free_p)
		struct service_case *t = case_new(registry_service("sockperf"), CHUNKS, CHUNK);
		uint32_t length = htobe32(lengths[i / 2]);
		uint8_t header[2 * SOCKPERF_HEADER] = { [9] = PING, [13] = SOCKPERF_HEADER };

		header[SOCKPERF_HEADER + 9] = PING;
		memcpy(header + SOCKPERF_HEADER + 10, &length, 4);
		case_input(t, header, sizeof(header), i % 2 ? 1 : sizeof(header));
		assert_null(t->conn);
		assert_int_equal(t->ends[CONN_END_PROTOCOL], 1);
		assert_int_equal(t->worker.pool.free_count, CHUNKS);
	}
}
