/* service/perftest/proto.c: control messages of perftest 4.5's clients, and of later ones, told
 * apart by their lengths. */
#include <errno.h>

#include "hex.h"
#include "perftest/proto.h"
#include "unit.h"
#include "util.h"

/* Of ib_send_bw over siw, whose credits go to rkey 0x2d0e00 and vaddr 0x55d0c3a0. */
#define QUEUE                                                                                      \
	"00000000"                                                                                 \
	"00000000"                                                                                 \
	"00000013"                                                                                 \
	"00a1b2c3"                                                                                 \
	"002d0e00"                                                                                 \
	"00000000"                                                                                 \
	"0000000055d0c3a0"                                                                         \
	"00000000000000000000ffff0a090101"                                                         \
	"00000000"                                                                                 \
	"00000001"

static int kind_of(const char *hex)
{
	struct bytes b = bytes_of(hex);

	return perftest_parse(b.data, (uint32_t)b.count);
}

TEST(lengths_tell_what_it_is)
{
	char text[2 * 200 + 1];
	unsigned known = 0;

	assert_int_equal(kind_of("362e3036000000000000000000000000"), PERFTEST_HELLO); /* 6.06 */
	assert_int_equal(kind_of("362e3330000000000000000000000000"), PERFTEST_HELLO);
	assert_int_equal(kind_of("00001000"), PERFTEST_VALUE);
	assert_int_equal(kind_of("00000040"), PERFTEST_VALUE);
	assert_int_equal(kind_of("3300"), PERFTEST_VALUE);
	assert_int_equal(kind_of("0000000000010000"), PERFTEST_REPORT);
	assert_int_equal(kind_of(QUEUE), PERFTEST_QUEUE);
	assert_int_equal(kind_of(QUEUE "0000000000000000"), PERFTEST_QUEUE); /* from 26.04 on */
	memset(text, '0', sizeof(text));
	for (unsigned n = 0; n <= 200; n++) {
		text[2 * n] = '\0';
		known += kind_of(text) != -EPROTO;
		text[2 * n] = '0';
	}
	assert_int_equal(known, 5); /* 2, 4, 8, 56, 64; 16 zeros are no version */
}

TEST(a_version_is_a_number)
{
	static const char *const none[] = {
		"00000000000000000000000000000000",
		"302e3036000000000000000000000000",
		"3636303600000000"
		"0000000000000000",
		"362e780000000000"
		"0000000000000000",
		"362e3036362e3036362e3036362e3036", /* without its end */
	};

	for (unsigned i = 0; i < ARRAY_SIZE(none); i++)
		assert_int_equal(kind_of(none[i]), -EPROTO);
	assert_int_equal(perftest_parse(perftest_version, PERFTEST_VERSION), PERFTEST_HELLO);
}

TEST(a_queue_pair_has_its_memory)
{
	struct bytes b = bytes_of(QUEUE), before = b;
	struct perftest_queue q = perftest_get_queue(b.data);

	assert_int_equal(q.number, 0x13);
	assert_int_equal(q.key, 0x2d0e00);
	assert_int_equal(q.address, 0x55d0c3a0);
	perftest_set_memory(b.data, UINT64_C(0x7f0102030405), 0x99);
	q = perftest_get_queue(b.data);
	assert_int_equal(q.number, 0x13);
	assert_int_equal(q.key, 0x99);
	assert_int_equal(q.address, UINT64_C(0x7f0102030405));
	assert_memory_equal(b.data, before.data, 16); /* all else is as it was */
	assert_memory_equal(b.data + 20, before.data + 20, 4);
	assert_memory_equal(b.data + 32, before.data + 32, 24);
}
