/* service/nbd/proto.c: messages as real clients and servers send them (libnbd 1.14 and
 * 1.22, qemu 7.2 and 10.0, nbdkit 1.32), and those that nobody should send. */
#include <errno.h>

#include "hex.h"
#include "nbd/proto.h"
#include "unit.h"
#include "util.h"

/* ---- Requests ---- */

enum {
	ALL_FLAGS = NBD_FLAG_HAS_FLAGS | NBD_FLAG_SEND_FLUSH | NBD_FLAG_SEND_FUA |
		    NBD_FLAG_SEND_TRIM | NBD_FLAG_SEND_WRITE_ZEROES | NBD_FLAG_CAN_MULTI_CONN,
	FUA = NBD_CMD_FLAG_FUA,
	NO_HOLE = NBD_CMD_FLAG_NO_HOLE,
	REQ_ONE = NBD_CMD_FLAG_REQ_ONE,
	MAX = NBD_PAYLOAD_MAX,
};

#define GIB (UINT64_C(1) << 30)

static const struct nbd_terms any = {
	.size = 1 << 20, .block_min = 1, .flags = ALL_FLAGS, .block_status = true
};

TEST(requests_that_lose_the_stream_end_it)
{
	static const struct {
		const char *hex;
		int rc;
		uint32_t payload;
	} cases[] = {
		/* an extended header's magic, a reply's */
		{ "21e41c710000000000000000000000010000000000000000"
		  "00002000",
		  -EPROTO, 0 },
		{ "67446698000000000000000000000001000000000000000000002000", -EPROTO, 0 },
		/* a WRITE that can be skipped, and one that is longer */
		{ "25609513000000010000000000000001000000000000000004000000", 0, NBD_DRAIN_MAX },
		{ "25609513000000010000000000000001000000000000000004000001", -EPROTO, 0 },
		{ "256095130000000100000000000000010000000000000000ffffffff", -EPROTO, 0 },
		/* other commands have no payload */
		{ "256095130020ffff0000000000000001000000000000000000000018", 0, 0 },
		{ "2560951300000004000000000000000100000000"
		  "00000000ffffffff",
		  0, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct nbd_request r = { .payload = 0 };

		assert_int_equal(nbd_parse_request(bytes_of(cases[i].hex).data, &r), cases[i].rc);
		assert_int_equal(r.payload, cases[i].payload);
	}
}

/* One request against the terms. */
static uint32_t check(const struct nbd_terms *terms, unsigned type, unsigned flags, uint64_t offset,
		      uint64_t length)
{
	struct nbd_request r = {
		.type = (uint16_t)type, .flags = (uint16_t)flags, .offset = offset, .length = length
	};
	const char *reason = NULL;
	uint32_t error = nbd_check_request(&r, terms, &reason);

	assert_int_equal(error != 0, reason != NULL);
	return error;
}

TEST(commands_have_their_own_flags)
{
	static const unsigned allowed[] = {
		[NBD_CMD_READ] = FUA,
		[NBD_CMD_WRITE] = FUA,
		[NBD_CMD_DISC] = 0xffff,
		[NBD_CMD_FLUSH] = FUA,
		[NBD_CMD_TRIM] = FUA,
		[NBD_CMD_WRITE_ZEROES] = FUA | NO_HOLE,
		[NBD_CMD_BLOCK_STATUS] = FUA | REQ_ONE,
	};

	for (unsigned type = 0; type < ARRAY_SIZE(allowed); type++) {
		for (unsigned i = 0; i < 2 * 16; i++) {
			unsigned flag = 1U << i / 2, known = allowed[type];
			struct nbd_terms terms = any;

			terms.structured = i % 2;
			if (!terms.structured && type == NBD_CMD_BLOCK_STATUS)
				known = 0;
			assert_int_equal(
				check(&terms, type, flag, 0, type == NBD_CMD_FLUSH ? 0 : 512),
				known & flag ? 0 : NBD_EINVAL);
		}
	}
}

TEST(commands_that_were_not_offered_are_refused)
{
	static const unsigned types[] = { 5 /* CACHE */, NBD_CMD_BLOCK_STATUS, 8, 0xffff };
	struct nbd_terms terms = any;

	terms.structured = true;
	terms.block_status = false;
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		assert_int_equal(check(&terms, types[i], 0, 0, 512), NBD_EINVAL);
	terms.flags |= NBD_FLAG_READ_ONLY;
	assert_int_equal(check(&terms, NBD_CMD_WRITE, 0, 0, 512), NBD_EPERM);
	assert_int_equal(check(&terms, NBD_CMD_TRIM, 0, 0, 512), NBD_EPERM);
	assert_int_equal(check(&terms, NBD_CMD_WRITE_ZEROES, 0, 0, 512), NBD_EPERM);
}

TEST(ranges_stay_in_the_export)
{
	static const struct {
		unsigned type;
		uint32_t error;
	} cases[] = {
		{ NBD_CMD_READ, NBD_EINVAL },         { NBD_CMD_WRITE, NBD_ENOSPC },
		{ NBD_CMD_TRIM, NBD_EINVAL },         { NBD_CMD_WRITE_ZEROES, NBD_ENOSPC },
		{ NBD_CMD_BLOCK_STATUS, NBD_EINVAL },
	};
	struct nbd_terms terms = any;

	terms.structured = true;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		unsigned type = cases[i].type;
		uint32_t error = cases[i].error;

		assert_int_equal(check(&terms, type, 0, 0, terms.size), 0);
		assert_int_equal(check(&terms, type, 0, terms.size - 1, 1), 0);
		assert_int_equal(check(&terms, type, 0, 0, 0), NBD_EINVAL);
		assert_int_equal(check(&terms, type, 0, terms.size, 0), NBD_EINVAL);
		assert_int_equal(check(&terms, type, 0, terms.size, 1), error);
		assert_int_equal(check(&terms, type, 0, 1, terms.size), error);
		assert_int_equal(check(&terms, type, 0, 0, terms.size + 1), error);
		assert_int_equal(check(&terms, type, 0, UINT64_MAX, 1), error);
		assert_int_equal(check(&terms, type, 0, UINT64_MAX - 511, 512), error);
		assert_int_equal(check(&terms, type, 0, 512, UINT64_MAX), error);
		assert_int_equal(check(&terms, type, 0, UINT64_MAX, UINT64_MAX), error);
	}
	terms.size = 0;
	assert_int_equal(check(&terms, NBD_CMD_READ, 0, 0, 1), NBD_EINVAL);
	assert_int_equal(check(&terms, NBD_CMD_FLUSH, 0, 0, 0), 0);
	assert_int_equal(check(&terms, NBD_CMD_FLUSH, 0, 1, 0), NBD_EINVAL);
	assert_int_equal(check(&terms, NBD_CMD_FLUSH, 0, 0, 1), NBD_EINVAL);
	assert_int_equal(check(&terms, NBD_CMD_DISC, 0, 1, 1), 0);
}

TEST(data_has_a_limit_and_other_lengths_none)
{
	struct nbd_terms terms = any;

	terms.size = 64 * GIB;
	terms.structured = true;
	assert_int_equal(check(&terms, NBD_CMD_READ, 0, 0, MAX), 0);
	assert_int_equal(check(&terms, NBD_CMD_READ, 0, 0, MAX + 1), NBD_EINVAL);
	assert_int_equal(check(&terms, NBD_CMD_READ, 0, 0, 8 * GIB), NBD_EINVAL);
	assert_int_equal(check(&terms, NBD_CMD_WRITE, 0, 0, MAX), 0);
	assert_int_equal(check(&terms, NBD_CMD_WRITE, 0, 0, MAX + 1), NBD_EINVAL);
	assert_int_equal(check(&terms, NBD_CMD_TRIM, 0, 0, 64 * GIB), 0);
	assert_int_equal(check(&terms, NBD_CMD_WRITE_ZEROES, 0, 0, 64 * GIB), 0);
	assert_int_equal(check(&terms, NBD_CMD_BLOCK_STATUS, 0, 0, 64 * GIB), 0);
}

TEST(ranges_are_aligned)
{
	struct nbd_terms terms = any;

	terms.structured = true;
	terms.block_min = 4096;
	for (unsigned type = 0; type <= NBD_CMD_BLOCK_STATUS; type++) {
		if (type == NBD_CMD_DISC || type == NBD_CMD_FLUSH || type == 5)
			continue;
		assert_int_equal(check(&terms, type, 0, 4096, 8192), 0);
		assert_int_equal(check(&terms, type, 0, 512, 4096), NBD_EINVAL);
		assert_int_equal(check(&terms, type, 0, 4096, 512), NBD_EINVAL);
		assert_int_equal(check(&terms, type, 0, 1, 1), NBD_EINVAL);
	}
}

/* ---- Replies ---- */

/* As nbdkit and qemu-nbd answer the same. */
TEST(replies_are_those_of_real_servers)
{
	const struct nbd_request r = { .cookie = 1, .offset = 0x10000000000, .length = 4 };
	const struct nbd_request four = { .cookie = 1, .length = 4 };
	const struct nbd_request eight = { 0, NBD_CMD_READ, 0, 2, 0xffc, 8 };
	uint8_t b[NBD_REPLY_MAX];

	assert_bytes(b, nbd_build_reply(b, false, &r, 0, NULL), "67446698000000000000000000000001");
	assert_bytes(b, nbd_build_reply(b, false, &r, NBD_EINVAL, "text"),
		     "67446698000000160000000000000001");
	assert_bytes(b, nbd_build_reply(b, true, &r, 0, NULL),
		     "668e33ef00010000000000000000000100000000");
	assert_bytes(b, nbd_build_reply(b, true, &r, NBD_EIO, NULL),
		     "668e33ef000180010000000000000001"
		     "00000006"
		     "00000005"
		     "0000");
	assert_bytes(b, nbd_build_data(b, false, &four, 0, 4, true),
		     "67446698000000000000000000000001");
	assert_bytes(b, nbd_build_data(b, true, &four, 0, 8192, true),
		     "668e33ef00010001000000000000000100002008"
		     "0000000000000000");
	/* a piece in the middle */
	assert_bytes(b, nbd_build_data(b, true, &eight, 0x1000, 4, false),
		     "668e33ef00000001000000000000000200"
		     "00000c"
		     "0000000000001000");
}

TEST(texts_of_errors_are_cut)
{
	const struct nbd_request r = { .cookie = 1 };
	static char text[2 * NBD_TEXT_MAX];
	uint8_t b[NBD_REPLY_MAX];

	memset(text, 'x', sizeof(text) - 1);
	assert_int_equal(nbd_build_reply(b, true, &r, NBD_EIO, text), 20 + 4 + 2 + NBD_TEXT_MAX);
}

enum { HOLE = NBD_STATE_HOLE | NBD_STATE_ZERO };

#define STRUCTURED_STATUS "668e33ef000100050000000000000001"

TEST(block_status_is_that_of_real_servers)
{
	static const struct nbd_extent extents[] = { { 8192, 0 }, { 0xfe000, HOLE } };
	struct nbd_request r = { .type = NBD_CMD_BLOCK_STATUS, .cookie = 1, .length = 1 << 20 };
	uint8_t b[NBD_STATUS_HEADER + ARRAY_SIZE(extents) * NBD_STATUS_EXTENT];

	assert_bytes(b, nbd_build_block_status(b, &r, extents, 2),
		     STRUCTURED_STATUS "00000014000000010000200000000000000fe00000000003");
	r.flags = REQ_ONE;
	assert_bytes(b, nbd_build_block_status(b, &r, extents, 2),
		     STRUCTURED_STATUS "0000000c000000010000200000000000");
}

TEST(block_status_keeps_to_the_request)
{
	static const struct nbd_extent extents[] = {
		{ 4096, 0 }, { 4096, 0 }, { 4096, HOLE }, { 4096, 0 }
	};
	struct nbd_request r = { .type = NBD_CMD_BLOCK_STATUS, .cookie = 1, .length = 8193 };
	uint8_t b[NBD_STATUS_HEADER + ARRAY_SIZE(extents) * NBD_STATUS_EXTENT];

	/* equal neighbours are one; the last one may reach further, none may begin there */
	assert_bytes(b, nbd_build_block_status(b, &r, extents, 4),
		     STRUCTURED_STATUS "0000001400000001"
				       "0000200000000000"
				       "0000100000000003");
	r.length = 8192;
	assert_bytes(b, nbd_build_block_status(b, &r, extents, 4),
		     STRUCTURED_STATUS "0000000c00000001"
				       "0000200000000000");
	/* one that is asked for alone may not */
	r.flags = REQ_ONE;
	r.length = 512;
	assert_bytes(b, nbd_build_block_status(b, &r, extents, 4),
		     STRUCTURED_STATUS "0000000c00000001"
				       "0000020000000000");
	r.length = 8192;
	assert_bytes(b, nbd_build_block_status(b, &r, extents + 1, 3),
		     STRUCTURED_STATUS "0000000c00000001"
				       "0000100000000000");
}

TEST(long_extents_are_cut_where_they_must)
{
	static const struct nbd_extent extents[] = { { 8 * GIB, HOLE }, { 8 * GIB, 0 } };
	static const struct nbd_extent longer[] = { { 0xffff8000, HOLE }, { 4096, 0 } };
	struct nbd_request r = { .type = NBD_CMD_BLOCK_STATUS, .cookie = 1, .length = 16 * GIB };
	uint8_t b[NBD_STATUS_HEADER + ARRAY_SIZE(extents) * NBD_STATUS_EXTENT];

	r.length = UINT32_MAX;
	assert_bytes(b, nbd_build_block_status(b, &r, extents, 2),
		     STRUCTURED_STATUS "0000000c00000001"
				       "ffff000000000003");
	/* nothing follows the part that was cut, though the client asked for more */
	assert_bytes(b, nbd_build_block_status(b, &r, longer, 2),
		     STRUCTURED_STATUS "0000000c00000001"
				       "ffff000000000003");
	r.flags = REQ_ONE;
	assert_bytes(b, nbd_build_block_status(b, &r, extents, 2),
		     STRUCTURED_STATUS "0000000c00000001"
				       "ffffffff00000003");
}
