/* service/fio*.c: the memory lent for each request, refusals, and that messages are dropped. */
#include <endian.h>

#include "fio/proto.h"
#include "registry.h"
#include "service_case.h"

enum { CHUNKS = 32, CHUNK = 16 * 1024, REGION = 64 * 1024 };

/* The listener's. */
static void *shared;

static struct service_case *start(void)
{
	struct service_case *t = case_new(registry_service("fio"), CHUNKS, CHUNK);

	t->worker.options.region_size = REGION;
	t->worker.shared = shared;
	return t;
}

static uint32_t word(const struct service_case *t, size_t at)
{
	uint32_t n;

	assert_int_equal(t->out_bytes, FIO_MESSAGE);
	memcpy(&n, t->out + at, sizeof(n));
	return be32toh(n);
}

static uint64_t address(const struct service_case *t, size_t index)
{
	uint64_t n;

	memcpy(&n, t->out + FIO_HEAD + index * FIO_BUFFER, sizeof(n));
	return be64toh(n);
}

static void request(struct service_case *t, uint32_t mode, uint32_t buffers, uint32_t block)
{
	static uint8_t message[FIO_MESSAGE];
	uint32_t words[] = { htobe32(mode), htobe32(buffers), htobe32(block) };

	memcpy(message, words, sizeof(words));
	case_input(t, message, sizeof(message), sizeof(message));
}

TEST(every_buffer_has_its_own_place)
{
	for (unsigned mode = FIO_WRITE; mode <= FIO_READ; mode++) {
		CLEANUP(case_free_p) struct service_case *t = start();

		request(t, mode, 8, 4096);
		assert_int_equal(t->region.bytes, 8 * 4096);
		assert_int_equal(word(t, 0), mode);
		assert_int_equal(word(t, 4), 8);
		assert_int_equal(word(t, 8), 4096);
		for (unsigned i = 0; i < 8; i++) {
			assert_int_equal(address(t, i), (uintptr_t)t->region.base + i * 4096UL);
			assert_int_equal(word(t, FIO_HEAD + i * FIO_BUFFER + 8), t->region.key);
			assert_int_equal(word(t, FIO_HEAD + i * FIO_BUFFER + 12), 4096);
		}
		assert_int_equal(address(t, 8), 0);
		request(t, mode, 8, 4096); /* the end of the test: no answer */
		assert_int_equal(t->out_bytes, FIO_MESSAGE);
		assert_int_equal(stat_load(t->worker.stats.operations[0].count), 1);
		assert_int_equal(stat_load(t->worker.stats.operations[1].count), 0);
	}
}

TEST(small_region_is_shared_by_buffers)
{
	CLEANUP(case_free_p) struct service_case *t = start();

	request(t, FIO_READ, FIO_BUFFERS_MAX, 20000);
	assert_int_equal(t->region.bytes, 3 * 20000);
	assert_int_equal(word(t, 4), FIO_BUFFERS_MAX);
	for (unsigned i = 0; i < FIO_BUFFERS_MAX; i++)
		assert_int_equal(address(t, i), (uintptr_t)t->region.base + i % 3 * 20000UL);
}

TEST(large_blocks_are_told_what_fits)
{
	static const struct {
		uint32_t mode, block, fits;
	} cases[] = { { FIO_WRITE, REGION + 1, REGION },
		      { FIO_READ, UINT32_MAX, REGION },
		      { FIO_SEND, CHUNK + 1, CHUNK } };

	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(case_free_p) struct service_case *t = start();

		request(t, cases[i].mode, 4, cases[i].block);
		assert_null(t->region.base);
		assert_int_equal(word(t, 4), 0);
		assert_int_equal(word(t, 8), cases[i].fits);
	}
}

/* 256 regions of 320 bytes are 20 pages, and each client's region takes one. */
TEST(memory_of_all_clients_is_bounded)
{
	enum { BYTES = 320, PAGES = 256 * BYTES / 4096 };
	struct service_case *t[PAGES + 2];

	for (unsigned i = 0; i < ARRAY_SIZE(t); i++) {
		t[i] = start();
		t[i]->worker.options.region_size = BYTES;
	}
	for (unsigned i = 0; i < PAGES; i++) {
		request(t[i], FIO_WRITE, 4, 100);
		assert_int_equal(t[i]->region.bytes, 3 * 100);
	}
	request(t[PAGES], FIO_READ, 1, 1);
	assert_null(t[PAGES]->region.base);
	assert_int_equal(word(t[PAGES], 4), 0);
	assert_int_equal(word(t[PAGES], 8), 0);
	assert_int_equal(stat_load(t[PAGES]->worker.stats.refused_limit), 1);
	assert_int_equal(stat_load(t[PAGES]->worker.stats.operations[0].count), 1);
	case_free(t[0]);
	request(t[PAGES + 1], FIO_WRITE, 1, BYTES);
	assert_int_equal(t[PAGES + 1]->region.bytes, BYTES);
	for (unsigned i = 1; i < ARRAY_SIZE(t); i++)
		case_free(t[i]);
}

TEST(messages_of_a_send_test_are_dropped)
{
	static const uint8_t block[CHUNK];
	CLEANUP(case_free_p) struct service_case *t = start();

	request(t, FIO_SEND, 8, CHUNK);
	assert_null(t->region.base);
	for (unsigned i = 1; i <= CHUNK; i *= 2)
		case_input(t, block, i, i);
	assert_int_equal(stat_load(t->worker.stats.operations[1].count), 15);
	assert_int_equal(t->out_bytes, FIO_MESSAGE);
	assert_int_equal(t->conn->rx.bytes, 0);
}

TEST(other_requests_end_the_connection)
{
	static const struct {
		uint32_t mode, buffers, block;
	} bad[] = { { 0, 1, 4096 },
		    { 4, 1, 4096 },
		    { FIO_WRITE, 0, 4096 },
		    { FIO_WRITE, FIO_BUFFERS_MAX + 1, 4096 },
		    { FIO_WRITE, 1, 0 } };
	static const uint8_t zeros[FIO_MESSAGE + 1];
	struct service_case *t;

	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		t = start();
		request(t, bad[i].mode, bad[i].buffers, bad[i].block);
		assert_null(t->conn);
		assert_int_equal(t->ends[CONN_END_PROTOCOL], 1);
		case_free(t);
	}
	for (unsigned bytes = FIO_MESSAGE - 1; bytes <= FIO_MESSAGE + 1; bytes += 2) {
		t = start();
		case_input(t, zeros, bytes, bytes);
		assert_int_equal(t->ends[CONN_END_PROTOCOL], 1);
		case_free(t);
	}
}

static int share(void **state)
{
	struct reason reason;

	(void)state;
	shared = registry_service("fio")->shared_new(NULL, NULL, &reason);
	return shared ? 0 : -1;
}

static int stop_sharing(void **state)
{
	(void)state;
	registry_service("fio")->shared_free(shared);
	return 0;
}

ALL_TESTS_WITH(share, stop_sharing)
