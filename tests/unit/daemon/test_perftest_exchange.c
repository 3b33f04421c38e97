/* service/perftest/proto.c: the messages of perftest 4.5's clients over TCP, as they were
 * captured from ib_send_bw over rxe. */
#include <errno.h>

#include "hex.h"
#include "perftest/proto.h"
#include "unit.h"

#define GID "00:00:00:00:00:00:00:00:00:00:ff:ff:0a:09:00:01:"

static const char key[EXCHANGE_KEY] =
	"0000:0001:000012:3ce8eb:00000394:000055ebbbd19000:" GID "00000000:";

/* After the version, both values and the MTU. */
static const struct exchange begun = { .step = 4 };

static int parse(struct exchange *x, const char *message, unsigned bytes)
{
	struct exchange_key ret;

	assert_int_equal(perftest_exchange_bytes(x, (const uint8_t *)message, bytes), bytes);
	return perftest_exchange_parse(x, (const uint8_t *)message, &ret);
}

static int parse_key(const char *message)
{
	struct exchange x = begun;

	return parse(&x, message, EXCHANGE_KEY);
}

TEST(a_test_from_its_beginning_to_its_end)
{
	struct exchange x = { 0 };
	char value[8] = { 0, 0, 1 };

	assert_int_equal(parse(&x, "6.06\0\0\0\0\0\0\0\0\0\0\0", 16), EXCHANGE_IS_VERSION);
	assert_int_equal(parse(&x, "\0\0\x10", 4), EXCHANGE_IS_VALUE);
	assert_int_equal(parse(&x, "\0\0\0@", 4), EXCHANGE_IS_VALUE);
	assert_int_equal(parse(&x, "3", 2), EXCHANGE_IS_MTU);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(parse(&x, key, sizeof(key)), EXCHANGE_IS_KEY);
	for (unsigned i = 0; i < EXCHANGE_REPORTS; i++) {
		assert_int_equal(parse(&x, value, sizeof(value)), EXCHANGE_IS_REPORT);
		value[0] = 'd'; /* any number may follow the first */
	}
	assert_int_equal(parse(&x, key, sizeof(key)), EXCHANGE_IS_KEY);
	assert_int_equal(parse(&x, "done", 5), EXCHANGE_IS_END);
}

TEST(a_message_is_told_by_its_first_bytes)
{
	for (unsigned have = 0; have < EXCHANGE_KIND_BYTES; have++)
		assert_int_equal(perftest_exchange_bytes(&begun, (const uint8_t *)key, have),
				 EXCHANGE_KIND_BYTES);
	assert_int_equal(perftest_exchange_bytes(&begun, (const uint8_t *)"done", 5), 5);
	assert_int_equal(perftest_exchange_bytes(&begun, (const uint8_t *)"d0ne:", 5),
			 EXCHANGE_KEY);
	assert_int_equal(perftest_exchange_bytes(&begun, (const uint8_t *)"\0\0\0\0\0", 5), 8);
}

TEST(a_key_has_its_fields)
{
	struct exchange x = begun;
	struct exchange_key k;
	uint8_t written[EXCHANGE_KEY];

	assert_int_equal(perftest_exchange_parse(&x, (const uint8_t *)key, &k), EXCHANGE_IS_KEY);
	assert_int_equal(k.lid, 0);
	assert_int_equal(k.reads, 1);
	assert_int_equal(k.number, 0x12);
	assert_int_equal(k.sequence, 0x3ce8eb);
	assert_int_equal(k.key, 0x394);
	assert_int_equal(k.address, UINT64_C(0x55ebbbd19000));
	assert_bytes(k.gid, sizeof(k.gid), "00000000000000000000ffff0a090001");
	perftest_exchange_write_key(&k, written);
	assert_memory_equal(written, key, sizeof(key));
}

TEST(each_byte_of_a_key_counts)
{
	char wrong[EXCHANGE_KEY];

	for (unsigned i = 0; i < sizeof(key); i++) {
		memcpy(wrong, key, sizeof(key));
		wrong[i] = key[i] == ':' ? '0' : 'g';
		assert_int_equal(parse_key(wrong), -EPROTO);
	}
	/* Of InfiniBand, where keys have no GID, and with data validation, where they have more. */
	memset(wrong, '0', sizeof(wrong));
	memcpy(wrong, "0001:0001:000012:3ce8eb:00000394:000055ebbbd19000:00000000", 59);
	assert_int_equal(parse_key(wrong), -EPROTO);
}

TEST(the_beginning_is_checked)
{
	static const char *const mtus[] = { "0", "6", "33", "" };
	struct exchange x = { 0 };

	assert_int_equal(parse(&x, key, 16), -EPROTO);
	for (unsigned i = 0; i < sizeof(mtus) / sizeof(mtus[0]); i++) {
		x.step = begun.step - 1;
		assert_int_equal(parse(&x, mtus[i], 2), -EPROTO);
	}
	assert_int_equal(exchange_mtu((const uint8_t *)"5"), 5);
}

/* The reason for the log of a message at that step. */
static const char *why(const char *message, unsigned bytes, unsigned step)
{
	struct exchange x = { .step = (uint8_t)step };

	assert_int_equal(parse(&x, message, bytes), -EPROTO);
	return perftest_exchange_wrong(&x, (const uint8_t *)message);
}

TEST(what_is_refused_is_named)
{
	char wrong[EXCHANGE_KEY] = "";

	/* The first bytes of rdma-core's ibv_rc_pingpong: LID:QPN:PSN:GID. */
	assert_has(why("0000:000011:d2ab6d:0000", 16, 0), "ibv_rc_pingpong");
	assert_has_not(why("GET / HTTP/1.1\r\n", 16, 0), "ibv_rc_pingpong");
	assert_has_not(why("0000:0000zz:d2ab", 16, 0), "ibv_rc_pingpong");
	assert_has(why("9", 2, begun.step - 1), "MTU");
	memset(wrong, 'z', sizeof(wrong));
	assert_has(why(wrong, sizeof(wrong), begun.step), "key");
}
