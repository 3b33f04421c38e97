/* service/netperf/proto.c: requests as netperf 2.7's client writes them, and the error of each
 * refusal. */
#include <endian.h>
#include <errno.h>

#include "netperf/proto.h"
#include "unit.h"
#include "util.h"

/* Numbers of a message, by their places behind type and error. */
struct word {
	int place;
	uint32_t value;
};

/* The client's first message, before the words of a test. */
static const struct word always[] = {
	{ 0, UINT32_MAX }, { 1, UINT32_MAX }, { 2, 8 },           { 5, UINT32_MAX },
	{ 6, UINT32_MAX }, { 7, UINT32_MAX }, { 11, UINT32_MAX }, { 12, 32 },
	{ 14, 10 },        { 21, 4 },         { 22, 1 },          { 23, 6 },
};

static void set_word(uint8_t *message, int place, uint32_t value)
{
	value = htobe32(value);
	memcpy(message + 8 + 4 * place, &value, sizeof(value));
}

/* Those that are not 0. */
struct words {
	struct word list[12];
};

/* A request with these words. */
static int ask(const struct words *words, struct netperf_request *ret)
{
	uint8_t message[NETPERF_MESSAGE] = { 0, 0, 0, 97, 0xff, 0xff, 0xff, 0xff };

	for (unsigned i = 0; i < ARRAY_SIZE(always); i++)
		set_word(message, always[i].place, always[i].value);
	for (unsigned i = 0; i < ARRAY_SIZE(words->list) && words->list[i].value; i++)
		set_word(message, words->list[i].place, words->list[i].value);
	return netperf_parse(message, ret);
}

#define WORDS(...)                                                                                 \
	{                                                                                          \
		{                                                                                  \
			__VA_ARGS__                                                                \
		}                                                                                  \
	}
#define DIRECTION(n)                                                                               \
	{                                                                                          \
		24, (n)                                                                            \
	}
#define SIZES(n, m)                                                                                \
	{ 5, (n) },                                                                                \
	{                                                                                          \
		11, (m)                                                                            \
	}
#define UDP                                                                                        \
	{ 22, 2 },                                                                                 \
	{                                                                                          \
		23, 17                                                                             \
	}

TEST(a_request_is_parsed)
{
	struct netperf_request r;

	assert_int_equal(ask(&(struct words)WORDS(DIRECTION(6), SIZES(64, 1024), { 12, 8 },
						  { 0, 1000 }, { 6, 2000 }, { 1, 77 },
						  { 20, 12866 }, { 14, (uint32_t)-500 },
						  { 38, 0x63756269 }, { 39, 0x63000000 }),
			     &r),
			 0);
	assert_int_equal(r.request_bytes, 64);
	assert_int_equal(r.response_bytes, 1024);
	assert_true(r.wants_cpu);
	assert_int_equal(r.send_buffer, 1000);
	assert_int_equal(r.receive_buffer, 2000);
	assert_int_equal(r.send_bytes, 77);
	assert_int_equal(r.port, 12866);
	assert_int_equal(r.time_s, 0);
	assert_int_equal(r.limit, 500);
	assert_string_equal(r.congestion, "cubic");
}

TEST(unsupported_requests_get_an_error)
{
	static const struct {
		int error;
		struct words words;
	} tests[] = {
		{ -EPROTONOSUPPORT, WORDS(DIRECTION(4), { 22, 2 }) },
		{ -EPROTONOSUPPORT, WORDS(DIRECTION(4), { 23, 132 }) },
		{ -EOPNOTSUPP, WORDS({ 12, 0x24 }) },
		{ -EOPNOTSUPP, WORDS(DIRECTION(4), { 12, 0x24 }) },
		{ -EOPNOTSUPP, WORDS(DIRECTION(2), UDP) },
		{ -EOPNOTSUPP, WORDS(DIRECTION(6), SIZES(1, 1), UDP, { 12, 0x24 }) },
		{ -EMSGSIZE, WORDS(DIRECTION(6), SIZES(1, 65508), UDP) },
		{ -EMSGSIZE, WORDS(DIRECTION(6), SIZES(65508, 1), UDP) },
		{ -EINVAL, WORDS(DIRECTION(6), SIZES(UINT32_MAX, 1)) },
		{ -EINVAL, WORDS(DIRECTION(6), SIZES(1, NETPERF_SIZE_MAX + 1)) },
		{ -EINVAL, WORDS(DIRECTION(4), { 0, NETPERF_SIZE_MAX + 1 }) },
		{ -EINVAL, WORDS(DIRECTION(4), { 14, NETPERF_TIME_MAX_S + 1 }) },
		{ -EINVAL, WORDS(DIRECTION(4), { 20, 65536 }) },
	};
	uint8_t message[NETPERF_MESSAGE] = { 0, 0, 0, 10 }; /* TCP_STREAM of netperf 2.4 */
	struct netperf_request r = { .port = 77 };

	for (unsigned i = 0; i < ARRAY_SIZE(tests); i++)
		assert_int_equal(ask(&tests[i].words, &r), tests[i].error);
	assert_int_equal(netperf_parse(message, &r), -EOPNOTSUPP);
	message[2] = 0x10; /* no type at all */
	assert_int_equal(netperf_parse(message, &r), -EPROTO);
	assert_int_equal(r.port, 77); /* as it was */
}

TEST(data_is_told_from_messages)
{
	assert_true(netperf_is_message((const uint8_t *)"\0\0\0\x61\xff\xff\xff\xff", 8));
	assert_true(netperf_is_message((const uint8_t *)"\0\0\0\x05\0\0\0\0", 8));
	assert_false(netperf_is_message((const uint8_t *)"\0\0\0\0\0\0\0\0", 8));
	assert_false(netperf_is_message((const uint8_t *)"netperf\0", 8));
	/* netperf -T: the CPU that its own server would run on. */
	assert_true(netperf_is_message((const uint8_t *)"\0\0\0\x61\0\0\0\1", 8));
	assert_true(netperf_is_message((const uint8_t *)"\0\0\0\x61\0\0\x1f\xff", 8));
	assert_false(netperf_is_message((const uint8_t *)"\0\0\0\x61\0\0\x20\0", 8));
	assert_false(netperf_is_message((const uint8_t *)"\0\0\0\x61\xff\xff\xff\xfe", 8));
}

TEST(the_head_of_a_message_may_come_in_pieces)
{
	static const char *const heads[] = { "\0\0\0\x61\xff\xff\xff\xff",
					     "\0\0\3\xe7\0\0\x1f\xff" };

	for (unsigned i = 0; i < ARRAY_SIZE(heads); i++)
		for (size_t bytes = 0; bytes <= NETPERF_HEAD; bytes++)
			assert_true(netperf_is_message((const uint8_t *)heads[i], bytes));
	assert_false(netperf_is_message((const uint8_t *)"n", 1));
	assert_false(netperf_is_message((const uint8_t *)"\0\0\4", 3));
	assert_false(netperf_is_message((const uint8_t *)"\0\0\0\0", 4));
	assert_false(netperf_is_message((const uint8_t *)"\0\0\0\x61\xff\0", 6));
}
