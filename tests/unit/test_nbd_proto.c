/* service/nbd_proto.c, nbd_option_proto.c: messages as real clients and servers send them
 * (libnbd 1.14 and 1.22, qemu 7.2 and 10.0, nbdkit 1.32), and those that nobody should send. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "nbd_option_proto.h"
#include "util.h"

#define OPT "49484156454f5054"
#define REP "0003e889045565a9"

/* ---- Bytes as hexadecimal digits ---- */

struct bytes {
	uint8_t data[1024];
	size_t count;
};

static struct bytes bytes_of(const char *hex)
{
	struct bytes b = { .count = strlen(hex) / 2 };

	assert_true(b.count <= sizeof(b.data));
	for (size_t i = 0; i < b.count; i++) {
		char digits[3] = { hex[2 * i], hex[2 * i + 1] };

		b.data[i] = (uint8_t)strtoul(digits, NULL, 16);
	}
	return b;
}

static void assert_bytes(const uint8_t *data, size_t count, const char *hex)
{
	struct bytes b = bytes_of(hex);

	assert_int_equal(count, b.count);
	assert_memory_equal(data, b.data, b.count);
}

/* ---- Options ---- */

/* A whole option; what nbd_parse_option_data() says of its data. */
static uint32_t option(const char *hex, enum nbd_mode mode, struct nbd_option *o)
{
	static struct bytes b; /* o->name points there */

	b = bytes_of(hex);
	assert_int_equal(nbd_parse_option(b.data, o), 0);
	assert_int_equal(o->refusal, 0);
	assert_int_equal(b.count, NBD_OPTION + o->length);
	return nbd_parse_option_data(b.data + NBD_OPTION, mode, o);
}

static void client_flags_are_known(void **state)
{
	uint32_t flags = 77;

	(void)state;
	assert_int_equal(nbd_parse_client_flags((const uint8_t *)"\0\0\0\3", &flags), 0);
	assert_int_equal(flags, NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES);
	assert_int_equal(nbd_parse_client_flags((const uint8_t *)"\0\0\0\0", &flags), 0);
	assert_int_equal(flags, 0);
	assert_int_equal(nbd_parse_client_flags((const uint8_t *)"\0\0\0\7", &flags), -EPROTO);
	assert_int_equal(nbd_parse_client_flags((const uint8_t *)"\200\0\0\1", &flags), -EPROTO);
	assert_int_equal(flags, 0);
}

static void options_of_real_clients_are_read(void **state)
{
	struct nbd_option o;

	(void)state;
	/* libnbd: nbdinfo's INFO, asking for all it knows; GO of nbdsh and qemu */
	assert_int_equal(option(OPT "0000000600000010000000046469736b0003000300010002", 0, &o), 0);
	assert_int_equal(o.type, NBD_OPT_INFO);
	assert_true(nbd_string_is(o.name, "disk"));
	assert_int_equal(o.infos,
			 1 << NBD_INFO_BLOCK_SIZE | 1 << NBD_INFO_NAME | 1 << NBD_INFO_DESCRIPTION);
	assert_int_equal(option(OPT "000000070000000c000000046469736b00010003", 0, &o), 0);
	assert_int_equal(o.type, NBD_OPT_GO);
	assert_int_equal(o.infos, 1 << NBD_INFO_BLOCK_SIZE);
	/* the default export */
	assert_int_equal(option(OPT "000000060000000c000000000003000300010002", 0, &o), 0);
	assert_true(nbd_string_is(o.name, ""));
	/* libnbd without GO, nbd-client */
	assert_int_equal(option(OPT "00000001000000046469736b", 0, &o), 0);
	assert_true(nbd_string_is(o.name, "disk") && !nbd_string_is(o.name, "disk0"));
	assert_int_equal(option(OPT "0000000100000000", 0, &o), 0);
	assert_true(nbd_string_is(o.name, ""));
	assert_int_equal(option(OPT "0000000300000000", 0, &o), 0);
	assert_int_equal(option(OPT "0000000200000000", 0, &o), 0);
	assert_int_equal(option(OPT "0000000800000000", 0, &o), 0);
	assert_int_equal(option(OPT "0000000b00000000", NBD_STRUCTURED, &o), 0);
}

#define ALLOCATION "0000000f626173653a616c6c6f636174696f6e"
#define BASE       "00000005626173653a"
#define QEMU       "0000000671656d753a78" /* "qemu:x" */

static void contexts_are_found(void **state)
{
	static const struct {
		const char *hex;
		bool found;
	} cases[] = {
		/* libnbd, qemu */
		{ OPT "0000000a0000001f000000046469736b00000001" ALLOCATION, true },
		{ OPT "000000090000000c000000046469736b00000000", true },
		{ OPT "0000000900000008"
		      "0000000000000000",
		  true },
		{ OPT "000000090000001f000000046469736b00000002" BASE QEMU, true },
		/* a wildcard and an empty list select nothing */
		{ OPT "0000000a0000001f000000046469736b00000002" BASE QEMU, false },
		{ OPT "0000000a0000000c000000046469736b00000000", false },
		{ OPT "0000000900000016000000046469736b00000001" QEMU, false },
		{ OPT "0000000a00000029000000046469736b00000002" QEMU ALLOCATION, true },
		{ OPT "0000000a00000008"
		      "0000000000000000",
		  false },
		{ OPT "0000000a0000000d"
		      "0000000000000001"
		      "0000000162",
		  false },
		{ OPT "0000000a0000000c"
		      "0000000000000001"
		      "00000000",
		  false },
	};
	struct nbd_option o;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(option(cases[i].hex, NBD_STRUCTURED, &o), 0);
		assert_int_equal(o.allocation, cases[i].found);
		assert_int_equal(option(cases[i].hex, NBD_EXTENDED, &o), 0);
		assert_int_equal(option(cases[i].hex, NBD_SIMPLE, &o), NBD_REP_ERR_INVALID);
	}
}

static void options_that_do_not_add_up_are_invalid(void **state)
{
	static const char *const cases[] = {
		OPT "000000030000000100",             /* LIST, and data */
		OPT "000000080000000100",             /* STRUCTURED_REPLY */
		OPT "0000000b0000000100",             /* EXTENDED_HEADERS */
		OPT "00000001000000026400",           /* NUL in a name */
		OPT "0000000700000000",               /* GO without anything */
		OPT "00000007000000056400000000",     /* a name beyond the data */
		OPT "0000000700000006ffffffff0000",   /* and far beyond */
		OPT "000000070000000400000000",       /* no number of requests */
		OPT "0000000700000006000000000001",   /* a request that is missing */
		OPT "000000070000000700000000000000", /* a byte too many */
		OPT "00000007000000070000000100"
		    "0000", /* NUL */
		OPT "0000000700000008000000000001"
		    "0003"
		    "00",                         /* a byte too many */
		OPT "00000009000000040000000000", /* no number of queries */
		OPT "0000000900000008"
		    "00000000"
		    "00000001", /* a query that is missing */
		OPT "000000090000000c"
		    "00000000"
		    "ffffffff"
		    "00000000",
		OPT "000000090000000c"
		    "00000000"
		    "00000001"
		    "00000001",
		OPT "000000090000000c"
		    "00000000"
		    "00000001"
		    "ffffffff",
		OPT "000000090000000d"
		    "00000000"
		    "00000001"
		    "0000000100", /* NUL */
		OPT "000000090000000d"
		    "00000000"
		    "00000001"
		    "0000000000", /* a byte too many */
	};
	struct nbd_option o;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct bytes b = bytes_of(cases[i]);
		struct nbd_option was;

		assert_int_equal(nbd_parse_option(b.data, &o), 0);
		o.length = (uint32_t)(b.count - NBD_OPTION);
		was = o;
		assert_int_equal(nbd_parse_option_data(b.data + NBD_OPTION, NBD_STRUCTURED, &o),
				 NBD_REP_ERR_INVALID);
		assert_memory_equal(&o, &was, sizeof(o));
	}
}

static void names_have_a_limit(void **state)
{
	static const uint8_t most[] = { 0, 0, 16, 0 }, more[] = { 0, 0, 16, 1 };
	static uint8_t data[NBD_OPTION_MAX];
	struct nbd_option o = { .type = NBD_OPT_EXPORT_NAME, .length = NBD_NAME_MAX };

	(void)state;
	memset(data, 'x', sizeof(data));
	assert_int_equal(nbd_parse_option_data(data, NBD_SIMPLE, &o), 0);
	assert_int_equal(o.name.bytes, NBD_NAME_MAX);
	o.length++;
	assert_int_equal(nbd_parse_option_data(data, NBD_SIMPLE, &o), NBD_REP_ERR_INVALID);
	o = (struct nbd_option){ .type = NBD_OPT_GO, .length = 4 + NBD_NAME_MAX + 1 + 2 };
	memcpy(data, more, sizeof(more));
	memset(data + 4 + NBD_NAME_MAX + 1, 0, 2);
	assert_int_equal(nbd_parse_option_data(data, NBD_SIMPLE, &o), NBD_REP_ERR_INVALID);
	o.length--;
	memcpy(data, most, sizeof(most));
	memset(data + 4 + NBD_NAME_MAX, 0, 2);
	assert_int_equal(nbd_parse_option_data(data, NBD_SIMPLE, &o), 0);
}

static void options_are_refused_by_their_header(void **state)
{
	static const struct {
		const char *hex;
		int rc;
		uint32_t refusal;
	} cases[] = {
		{ OPT "0000000500000000", 0, NBD_REP_ERR_UNSUP }, /* STARTTLS */
		{ OPT "0000000400000000", 0, NBD_REP_ERR_UNSUP }, /* the withdrawn PEEK_EXPORT */
		{ OPT "0000000000000000", 0, NBD_REP_ERR_UNSUP },
		{ OPT "0000000c00000000", 0, NBD_REP_ERR_UNSUP },
		{ OPT "ffffffff04000000", 0, NBD_REP_ERR_UNSUP },
		{ OPT "0000000700002000", 0, 0 },
		{ OPT "0000000700002001", 0, NBD_REP_ERR_TOO_BIG },
		{ OPT "0000000704000000", 0, NBD_REP_ERR_TOO_BIG },
		{ OPT "0000000704000001", -EPROTO, 0 },
		{ OPT "00000007ffffffff", -EPROTO, 0 },
		{ OPT "0000000100002001", -EPROTO, 0 },
		{ "49484156454f5055"
		  "0000000700000000",
		  -EPROTO, 0 },
		{ "256095130000000000000000"
		  "00000000",
		  -EPROTO, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct nbd_option o = { .refusal = 0 };

		assert_int_equal(nbd_parse_option(bytes_of(cases[i].hex).data, &o), cases[i].rc);
		assert_int_equal(o.refusal, cases[i].refusal);
	}
	assert_string_equal(nbd_option_name(NBD_OPT_STARTTLS), "STARTTLS");
	assert_string_equal(nbd_option_name(4), "?");
	assert_string_equal(nbd_option_name(UINT32_MAX), "?");
}

static void extended_headers_take_precedence(void **state)
{
	struct nbd_option o;

	(void)state;
	assert_int_equal(option(OPT "0000000800000000", NBD_EXTENDED, &o),
			 NBD_REP_ERR_EXT_HEADER_REQD);
	assert_int_equal(option(OPT "00000001000000046469736b", NBD_EXTENDED, &o),
			 NBD_REP_ERR_INVALID);
	assert_int_equal(option(OPT "0000000b00000000", NBD_EXTENDED, &o), 0);
	/* what comes with ABORT does not matter */
	assert_int_equal(option(OPT "0000000200000002ffff", NBD_EXTENDED, &o), 0);
}

/* As nbdkit and qemu-nbd answer the same. */
static void handshake_replies_are_those_of_real_servers(void **state)
{
	uint8_t b[NBD_OPTION_REPLY_MAX], export[NBD_EXPORT_REPLY_MAX], zeros[124] = { 0 };
	static char name[NBD_NAME_MAX + 2];

	(void)state;
	assert_bytes(b, nbd_build_greeting(b), "4e42444d4147494349484156454f50540003");
	assert_bytes(b, nbd_build_ack(b, NBD_OPT_GO), REP "000000070000000100000000");
	assert_bytes(b, nbd_build_server(b, ""), REP "00000003000000020000000400000000");
	assert_bytes(b, nbd_build_server(b, "disk"),
		     REP "000000030000000200000008000000046469736b");
	assert_bytes(b, nbd_build_info_export(b, NBD_OPT_INFO, 1 << 20, 0x05ed),
		     REP "00000006000000030000000c0000000000000010000005ed");
	assert_bytes(b, nbd_build_info_text(b, NBD_OPT_INFO, NBD_INFO_NAME, "disk"),
		     REP "00000006000000030000000600016469736b");
	assert_bytes(b, nbd_build_info_block_size(b, NBD_OPT_GO, 1, 4096, NBD_PAYLOAD_MAX),
		     REP "00000007000000030000000e0003000000010000100002000000");
	assert_bytes(b, nbd_build_meta_context(b, NBD_OPT_SET_META_CONTEXT),
		     REP "0000000a000000040000001300000001626173653a616c6c6f636174696f6e");
	assert_bytes(b, nbd_build_meta_context(b, NBD_OPT_LIST_META_CONTEXT),
		     REP "00000009000000040000001300000000626173653a616c6c6f636174696f6e");
	assert_bytes(b, nbd_build_option_error(b, 5, NBD_REP_ERR_UNSUP, "no"),
		     REP "0000000580000001000000026e6f");
	assert_bytes(b, nbd_build_option_error(b, 5, NBD_REP_ERR_UNSUP, NULL),
		     REP "000000058000000100000000");
	assert_bytes(export, nbd_build_export(export, 1 << 20, 0x056d, NBD_FLAG_NO_ZEROES),
		     "0000000000100000056d");
	assert_int_equal(nbd_build_export(export, 1 << 20, 0x056d, 0), 134);
	assert_memory_equal(export + 10, zeros, sizeof(zeros));

	/* texts that are too long are cut */
	memset(name, 'x', sizeof(name) - 1);
	assert_int_equal(nbd_build_server(b, name), NBD_OPTION_REPLY_MAX);
	assert_int_equal(nbd_build_info_text(b, NBD_OPT_GO, NBD_INFO_DESCRIPTION, name),
			 20 + 2 + NBD_NAME_MAX);
	assert_int_equal(nbd_build_option_error(b, 1, NBD_REP_ERR_UNKNOWN, name),
			 20 + NBD_TEXT_MAX);
}

/* ---- Requests ---- */

enum {
	ALL_FLAGS = NBD_FLAG_HAS_FLAGS | NBD_FLAG_SEND_FLUSH | NBD_FLAG_SEND_FUA |
		    NBD_FLAG_SEND_TRIM | NBD_FLAG_SEND_WRITE_ZEROES | NBD_FLAG_SEND_DF |
		    NBD_FLAG_CAN_MULTI_CONN | NBD_FLAG_SEND_CACHE | NBD_FLAG_SEND_FAST_ZERO,
	FUA = NBD_CMD_FLAG_FUA,
	NO_HOLE = NBD_CMD_FLAG_NO_HOLE,
	DF = NBD_CMD_FLAG_DF,
	REQ_ONE = NBD_CMD_FLAG_REQ_ONE,
	FAST = NBD_CMD_FLAG_FAST_ZERO,
	PAYLOAD = NBD_CMD_FLAG_PAYLOAD_LEN,
	MAX = NBD_PAYLOAD_MAX,
};

#define GIB (UINT64_C(1) << 30)

static const struct nbd_terms any = {
	.size = 1 << 20, .block_min = 1, .flags = ALL_FLAGS, .block_status = true
};

static void requests_of_real_clients_are_read(void **state)
{
	static const struct {
		enum nbd_mode mode;
		const char *hex;
		struct nbd_request r;
	} cases[] = {
		/* libnbd 1.14, qemu 7.2 */
		{ NBD_SIMPLE,
		  "25609513000000000000000000000001000000000000000000002000",
		  { .type = NBD_CMD_READ, .cookie = 1, .length = 8192 } },
		{ NBD_STRUCTURED,
		  "25609513000100010000559de8c21000000000000000100000001000",
		  { FUA, NBD_CMD_WRITE, 4096, 0x559de8c21000, 4096, 4096 } },
		{ NBD_STRUCTURED,
		  "25609513000300060000559de8c21000000000000000200000001000",
		  { FUA | NO_HOLE, NBD_CMD_WRITE_ZEROES, 0, 0x559de8c21000, 8192, 4096 } },
		{ NBD_STRUCTURED,
		  "25609513000000070000000000000001000000000000000000100000",
		  { 0, NBD_CMD_BLOCK_STATUS, 0, 1, 0, 1 << 20 } },
		{ NBD_STRUCTURED,
		  "25609513000000030000000000000005000000000000000000000000",
		  { .type = NBD_CMD_FLUSH, .cookie = 5 } },
		/* libnbd 1.22, and qemu 10.0 without PAYLOAD_LEN */
		{ NBD_EXTENDED,
		  "21e41c7100210001000000000000000100000000000000000000000000000010",
		  { FUA | PAYLOAD, NBD_CMD_WRITE, 16, 1, 0, 16 } },
		{ NBD_EXTENDED,
		  "21e41c7100010001000000000000000100000000000010000000000000000010",
		  { FUA, NBD_CMD_WRITE, 16, 1, 4096, 16 } },
		{ NBD_EXTENDED,
		  "21e41c710004000000000000000000020000000000000ffc0000000000000008",
		  { DF, NBD_CMD_READ, 0, 2, 4092, 8 } },
		{ NBD_EXTENDED,
		  "21e41c71000800070000000000000001000000000000200000000000000fe000",
		  { REQ_ONE, NBD_CMD_BLOCK_STATUS, 0, 1, 8192, 0xfe000 } },
		{ NBD_EXTENDED,
		  "21e41c7100020006000000000000000200000000000002000000000000000200",
		  { NO_HOLE, NBD_CMD_WRITE_ZEROES, 0, 2, 512, 512 } },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct bytes b = bytes_of(cases[i].hex);
		struct nbd_terms terms = any;
		const char *reason = NULL;
		struct nbd_request r;

		terms.mode = (uint8_t)cases[i].mode;
		assert_int_equal(b.count, nbd_request_bytes(cases[i].mode));
		assert_int_equal(nbd_parse_request(b.data, cases[i].mode, &r), 0);
		assert_memory_equal(&r, &cases[i].r, sizeof(r));
		assert_int_equal(nbd_check_request(&r, &terms, &reason), 0);
		assert_null(reason);
	}
}

static void requests_that_lose_the_stream_end_it(void **state)
{
	static const struct {
		enum nbd_mode mode;
		const char *hex;
		int rc;
		uint32_t payload;
	} cases[] = {
		/* the other mode's magic, a reply's */
		{ NBD_EXTENDED, "2560951300000000000000000000000100000000000000000000200000000000",
		  -EPROTO, 0 },
		{ NBD_STRUCTURED,
		  "21e41c710000000000000000000000010000000000000000"
		  "00002000",
		  -EPROTO, 0 },
		{ NBD_SIMPLE, "67446698000000000000000000000001000000000000000000002000", -EPROTO,
		  0 },
		/* a WRITE that can be skipped, and one that is longer */
		{ NBD_SIMPLE, "25609513000000010000000000000001000000000000000004000000", 0,
		  NBD_DRAIN_MAX },
		{ NBD_SIMPLE, "25609513000000010000000000000001000000000000000004000001", -EPROTO,
		  0 },
		{ NBD_SIMPLE, "256095130000000100000000000000010000000000000000ffffffff", -EPROTO,
		  0 },
		{ NBD_EXTENDED, "21e41c7100200001000000000000000100000000000000000000000100000001",
		  -EPROTO, 0 },
		{ NBD_EXTENDED, "21e41c7100200000000000000000000100000000000000000000000004000001",
		  -EPROTO, 0 },
		/* payload of other commands */
		{ NBD_EXTENDED, "21e41c7100200007000000000000000100000000000000000000000000000018",
		  0, 24 },
		{ NBD_EXTENDED, "21e41c710020ffff000000000000000100000000000000000000000000000018",
		  0, 24 },
		{ NBD_STRUCTURED, "256095130020ffff0000000000000001000000000000000000000018", 0,
		  0 },
		{ NBD_EXTENDED,
		  "21e41c71000000040000000000000001"
		  "0000000000000000"
		  "ffffffffffffffff",
		  0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct nbd_request r = { .payload = 0 };

		assert_int_equal(nbd_parse_request(bytes_of(cases[i].hex).data, cases[i].mode, &r),
				 cases[i].rc);
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

static const enum nbd_mode modes[] = { NBD_SIMPLE, NBD_STRUCTURED, NBD_EXTENDED };

/* Of each command the flags it may have, in any mode that negotiates them. */
static void commands_have_their_own_flags(void **state)
{
	static const unsigned allowed[] = {
		[NBD_CMD_READ] = FUA | DF,
		[NBD_CMD_WRITE] = FUA | PAYLOAD,
		[NBD_CMD_DISC] = 0xffff,
		[NBD_CMD_FLUSH] = FUA,
		[NBD_CMD_TRIM] = FUA,
		[NBD_CMD_CACHE] = FUA,
		[NBD_CMD_WRITE_ZEROES] = FUA | NO_HOLE | FAST,
		[NBD_CMD_BLOCK_STATUS] = FUA | REQ_ONE,
	};

	(void)state;
	for (unsigned type = 0; type < ARRAY_SIZE(allowed); type++) {
		for (unsigned i = 0; i < 16 * ARRAY_SIZE(modes); i++) {
			unsigned flag = 1U << i / ARRAY_SIZE(modes), known = allowed[type];
			struct nbd_terms terms = any;

			terms.mode = (uint8_t)modes[i % ARRAY_SIZE(modes)];
			if (terms.mode == NBD_SIMPLE && type != NBD_CMD_DISC)
				known &= ~(unsigned)DF;
			if (terms.mode != NBD_EXTENDED && type != NBD_CMD_DISC)
				known &= ~(unsigned)PAYLOAD;
			if (terms.mode == NBD_SIMPLE && type == NBD_CMD_BLOCK_STATUS)
				known = 0;
			assert_int_equal(
				check(&terms, type, flag, 0, type == NBD_CMD_FLUSH ? 0 : 512),
				known & flag ? 0 : NBD_EINVAL);
		}
	}
}

static void what_was_not_offered_is_refused(void **state)
{
	static const struct {
		unsigned feature, type, flag;
	} cases[] = {
		{ NBD_FLAG_SEND_FLUSH, NBD_CMD_FLUSH, 0 },
		{ NBD_FLAG_SEND_TRIM, NBD_CMD_TRIM, 0 },
		{ NBD_FLAG_SEND_CACHE, NBD_CMD_CACHE, 0 },
		{ NBD_FLAG_SEND_WRITE_ZEROES, NBD_CMD_WRITE_ZEROES, 0 },
		{ NBD_FLAG_SEND_FAST_ZERO, NBD_CMD_WRITE_ZEROES, FAST },
		{ NBD_FLAG_SEND_DF, NBD_CMD_READ, DF },
		{ NBD_FLAG_SEND_FUA, NBD_CMD_WRITE, FUA },
		{ NBD_FLAG_SEND_FUA, NBD_CMD_READ, FUA },
	};
	struct nbd_terms terms = any;

	(void)state;
	terms.mode = NBD_STRUCTURED;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t length = cases[i].type == NBD_CMD_FLUSH ? 0 : 512;

		terms.flags = ALL_FLAGS;
		assert_int_equal(check(&terms, cases[i].type, cases[i].flag, 0, length), 0);
		terms.flags = (uint16_t)(ALL_FLAGS & ~cases[i].feature);
		assert_int_equal(check(&terms, cases[i].type, cases[i].flag, 0, length),
				 NBD_EINVAL);
	}
	terms.flags = ALL_FLAGS;
	terms.block_status = false;
	assert_int_equal(check(&terms, NBD_CMD_BLOCK_STATUS, 0, 0, 512), NBD_EINVAL);
	assert_int_equal(check(&terms, 8, 0, 0, 512), NBD_EINVAL);
	assert_int_equal(check(&terms, 0xffff, 0, 0, 0), NBD_EINVAL);
	assert_string_equal(nbd_command_name(NBD_CMD_BLOCK_STATUS), "BLOCK_STATUS");
	assert_string_equal(nbd_command_name(8), "?");
}

static void a_read_only_export_is_only_read(void **state)
{
	struct nbd_terms terms = any;

	(void)state;
	terms.mode = NBD_STRUCTURED;
	terms.flags = NBD_FLAG_HAS_FLAGS | NBD_FLAG_READ_ONLY | NBD_FLAG_SEND_FLUSH;
	assert_int_equal(check(&terms, NBD_CMD_READ, 0, 0, 512), 0);
	assert_int_equal(check(&terms, NBD_CMD_FLUSH, 0, 0, 0), 0);
	assert_int_equal(check(&terms, NBD_CMD_BLOCK_STATUS, 0, 0, 512), 0);
	assert_int_equal(check(&terms, NBD_CMD_WRITE, 0, 0, 512), NBD_EPERM);
	assert_int_equal(check(&terms, NBD_CMD_TRIM, 0, 0, 512), NBD_EPERM);
	assert_int_equal(check(&terms, NBD_CMD_WRITE_ZEROES, 0, 0, 512), NBD_EPERM);
}

static void ranges_stay_in_the_export(void **state)
{
	static const struct {
		unsigned type;
		uint32_t error;
	} cases[] = {
		{ NBD_CMD_READ, NBD_EINVAL },         { NBD_CMD_WRITE, NBD_ENOSPC },
		{ NBD_CMD_TRIM, NBD_EINVAL },         { NBD_CMD_CACHE, NBD_EINVAL },
		{ NBD_CMD_WRITE_ZEROES, NBD_ENOSPC }, { NBD_CMD_BLOCK_STATUS, NBD_EINVAL },
	};
	struct nbd_terms terms = any;

	(void)state;
	terms.mode = NBD_EXTENDED;
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

static void data_has_a_limit_and_other_lengths_none(void **state)
{
	struct nbd_terms terms = any;

	(void)state;
	terms.size = 64 * GIB;
	terms.mode = NBD_EXTENDED;
	assert_int_equal(check(&terms, NBD_CMD_READ, 0, 0, MAX), 0);
	assert_int_equal(check(&terms, NBD_CMD_READ, 0, 0, MAX + 1), NBD_EINVAL);
	assert_int_equal(check(&terms, NBD_CMD_READ, DF, 0, MAX), 0);
	assert_int_equal(check(&terms, NBD_CMD_READ, DF, 0, MAX + 1), NBD_EOVERFLOW);
	assert_int_equal(check(&terms, NBD_CMD_READ, 0, 0, 8 * GIB), NBD_EINVAL);
	assert_int_equal(check(&terms, NBD_CMD_WRITE, PAYLOAD, 0, MAX), 0);
	assert_int_equal(check(&terms, NBD_CMD_WRITE, PAYLOAD, 0, MAX + 1), NBD_EINVAL);
	assert_int_equal(check(&terms, NBD_CMD_TRIM, 0, 0, 64 * GIB), 0);
	assert_int_equal(check(&terms, NBD_CMD_CACHE, 0, 0, 64 * GIB), 0);
	assert_int_equal(check(&terms, NBD_CMD_WRITE_ZEROES, 0, 0, 64 * GIB), 0);
	assert_int_equal(check(&terms, NBD_CMD_BLOCK_STATUS, 0, 0, 64 * GIB), 0);
}

static void ranges_are_aligned(void **state)
{
	struct nbd_terms terms = any;

	(void)state;
	terms.mode = NBD_STRUCTURED;
	terms.block_min = 4096;
	for (unsigned type = 0; type <= NBD_CMD_BLOCK_STATUS; type++) {
		if (type == NBD_CMD_DISC || type == NBD_CMD_FLUSH)
			continue;
		assert_int_equal(check(&terms, type, 0, 4096, 8192), 0);
		assert_int_equal(check(&terms, type, 0, 512, 4096), NBD_EINVAL);
		assert_int_equal(check(&terms, type, 0, 4096, 512), NBD_EINVAL);
		assert_int_equal(check(&terms, type, 0, 1, 1), NBD_EINVAL);
	}
}

static void errors_are_those_of_the_protocol(void **state)
{
	(void)state;
	assert_int_equal(nbd_error_of(0), 0);
	assert_int_equal(nbd_error_of(-EPERM), NBD_EPERM);
	assert_int_equal(nbd_error_of(-EROFS), NBD_EPERM);
	assert_int_equal(nbd_error_of(-EIO), NBD_EIO);
	assert_int_equal(nbd_error_of(-ENOMEM), NBD_ENOMEM);
	assert_int_equal(nbd_error_of(-EINVAL), NBD_EINVAL);
	assert_int_equal(nbd_error_of(-ENOSPC), NBD_ENOSPC);
	assert_int_equal(nbd_error_of(-EDQUOT), NBD_ENOSPC);
	assert_int_equal(nbd_error_of(-EFBIG), NBD_ENOSPC);
	assert_int_equal(nbd_error_of(-EOVERFLOW), NBD_EOVERFLOW);
	assert_int_equal(nbd_error_of(-EOPNOTSUPP), NBD_ENOTSUP);
	assert_int_equal(nbd_error_of(-ESHUTDOWN), NBD_ESHUTDOWN);
	assert_int_equal(nbd_error_of(-EBADF), NBD_EIO);
	assert_int_equal(nbd_error_of(-ENODEV), NBD_EIO);
}

/* ---- Replies ---- */

/* As nbdkit and qemu-nbd answer the same. */
static void replies_are_those_of_real_servers(void **state)
{
	const struct nbd_request r = { .cookie = 1, .offset = 0x10000000000, .length = 4 };
	const struct nbd_request four = { .cookie = 1, .length = 4 };
	const struct nbd_request df = { DF, NBD_CMD_READ, 0, 2, 0xffc, 8 };
	uint8_t b[NBD_REPLY_MAX];

	(void)state;
	assert_bytes(b, nbd_build_reply(b, NBD_SIMPLE, &r, 0, NULL),
		     "67446698000000000000000000000001");
	assert_bytes(b, nbd_build_reply(b, NBD_SIMPLE, &r, NBD_EINVAL, "text"),
		     "67446698000000160000000000000001");
	assert_bytes(b, nbd_build_reply(b, NBD_STRUCTURED, &r, 0, NULL),
		     "668e33ef00010000000000000000000100000000");
	assert_bytes(b, nbd_build_reply(b, NBD_STRUCTURED, &r, NBD_EIO, NULL),
		     "668e33ef000180010000000000000001"
		     "00000006"
		     "00000005"
		     "0000");
	assert_bytes(b, nbd_build_reply(b, NBD_EXTENDED, &r, 0, NULL),
		     "6e8a278c000100000000000000000001"
		     "0000010000000000"
		     "0000000000000000");
	assert_bytes(b,
		     nbd_build_reply(b, NBD_EXTENDED, &r, NBD_EINVAL,
				     "operation past EOF; From: 1099511627776, Len: 4, Size: "
				     "1048576"),
		     "6e8a278c00018001000000000000000100000100000000000000000000000044"
		     "00000016003e6f7065726174696f6e207061737420454f463b2046726f6d3a20"
		     "313039393531313632373737362c204c656e3a20342c2053697a653a20313034"
		     "38353736");
	assert_bytes(b, nbd_build_error_at(b, NBD_SIMPLE, &r, NBD_EIO, 77, NULL),
		     "67446698000000050000000000000001");
	assert_bytes(b, nbd_build_error_at(b, NBD_STRUCTURED, &r, NBD_EIO, 77, "no"),
		     "668e33ef000180020000000000000001"
		     "00000010"
		     "00000005"
		     "00026e6f"
		     "000000000000004d");

	assert_bytes(b, nbd_build_data(b, NBD_SIMPLE, &four, 0, 4, true),
		     "67446698000000000000000000000001");
	assert_bytes(b, nbd_build_data(b, NBD_STRUCTURED, &four, 0, 8192, true),
		     "668e33ef00010001000000000000000100002008"
		     "0000000000000000");
	assert_bytes(b, nbd_build_data(b, NBD_EXTENDED, &df, 0xffc, 8, true),
		     "6e8a278c0001000100000000000000020000000000000ffc0000000000000010"
		     "0000000000000ffc");
	/* a piece in the middle: only the chunk's own offset moves */
	assert_bytes(b, nbd_build_data(b, NBD_EXTENDED, &df, 0x1000, 4, false),
		     "6e8a278c0000000100000000000000020000000000000ffc000000000000000c"
		     "0000000000001000");
	assert_bytes(b, nbd_build_hole(b, NBD_STRUCTURED, &four, 512, 4096, false),
		     "668e33ef0000000200000000000000010000000c"
		     "0000000000000200"
		     "00001000");
	assert_int_equal(nbd_build_hole(b, NBD_EXTENDED, &four, 512, 4096, true), NBD_CHUNK_MAX);
}

static void texts_of_errors_are_cut(void **state)
{
	const struct nbd_request r = { .cookie = 1 };
	static char text[2 * NBD_TEXT_MAX];
	uint8_t b[NBD_REPLY_MAX];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	assert_int_equal(nbd_build_error_at(b, NBD_EXTENDED, &r, NBD_EIO, 0, text), NBD_REPLY_MAX);
	assert_int_equal(nbd_build_reply(b, NBD_STRUCTURED, &r, NBD_EIO, text),
			 20 + 4 + 2 + NBD_TEXT_MAX);
}

enum { HOLE = NBD_STATE_HOLE | NBD_STATE_ZERO };

#define STRUCTURED_STATUS "668e33ef000100050000000000000001"
#define EXTENDED_STATUS   "6e8a278c0001000600000000000000010000000000000000"

static void block_status_is_that_of_real_servers(void **state)
{
	static const struct nbd_extent extents[] = { { 8192, 0 }, { 0xfe000, HOLE } };
	struct nbd_request r = { .type = NBD_CMD_BLOCK_STATUS, .cookie = 1, .length = 1 << 20 };
	uint8_t b[NBD_STATUS_HEADER_MAX + ARRAY_SIZE(extents) * NBD_STATUS_EXTENT_MAX];

	(void)state;
	assert_bytes(b, nbd_build_block_status(b, NBD_STRUCTURED, &r, extents, 2),
		     STRUCTURED_STATUS "00000014000000010000200000000000000fe00000000003");
	assert_bytes(b, nbd_build_block_status(b, NBD_EXTENDED, &r, extents, 2),
		     EXTENDED_STATUS "0000000000000028"
				     "00000001"
				     "00000002" /* qemu: 0 */
				     "00000000000020000000000000000000"
				     "00000000000fe0000000000000000003");
	r.flags = REQ_ONE;
	assert_bytes(b, nbd_build_block_status(b, NBD_EXTENDED, &r, extents, 2),
		     EXTENDED_STATUS "0000000000000018"
				     "00000001"
				     "00000001"
				     "00000000000020000000000000000000");
}

static void block_status_keeps_to_the_request(void **state)
{
	static const struct nbd_extent extents[] = {
		{ 4096, 0 }, { 4096, 0 }, { 4096, HOLE }, { 4096, 0 }
	};
	struct nbd_request r = { .type = NBD_CMD_BLOCK_STATUS, .cookie = 1, .length = 8193 };
	uint8_t b[NBD_STATUS_HEADER_MAX + ARRAY_SIZE(extents) * NBD_STATUS_EXTENT_MAX];

	(void)state;
	/* equal neighbours are one; the last one may reach further, none may begin there */
	assert_bytes(b, nbd_build_block_status(b, NBD_STRUCTURED, &r, extents, 4),
		     STRUCTURED_STATUS "0000001400000001"
				       "0000200000000000"
				       "0000100000000003");
	r.length = 8192;
	assert_bytes(b, nbd_build_block_status(b, NBD_STRUCTURED, &r, extents, 4),
		     STRUCTURED_STATUS "0000000c00000001"
				       "0000200000000000");
	/* one that is asked for alone may not */
	r.flags = REQ_ONE;
	r.length = 512;
	assert_bytes(b, nbd_build_block_status(b, NBD_STRUCTURED, &r, extents, 4),
		     STRUCTURED_STATUS "0000000c00000001"
				       "0000020000000000");
	r.length = 8192;
	assert_bytes(b, nbd_build_block_status(b, NBD_STRUCTURED, &r, extents + 1, 3),
		     STRUCTURED_STATUS "0000000c00000001"
				       "0000100000000000");
}

static void long_extents_are_cut_where_they_must(void **state)
{
	static const struct nbd_extent extents[] = { { 8 * GIB, HOLE }, { 8 * GIB, 0 } };
	static const struct nbd_extent longer[] = { { 0xffff8000, HOLE }, { 4096, 0 } };
	struct nbd_request r = { .type = NBD_CMD_BLOCK_STATUS, .cookie = 1, .length = 16 * GIB };
	uint8_t b[NBD_STATUS_HEADER_MAX + ARRAY_SIZE(extents) * NBD_STATUS_EXTENT_MAX];

	(void)state;
	assert_bytes(b, nbd_build_block_status(b, NBD_EXTENDED, &r, extents, 2),
		     EXTENDED_STATUS "0000000000000028"
				     "00000001"
				     "00000002"
				     "00000002000000000000000000000003"
				     "00000002000000000000000000000000");
	r.length = UINT32_MAX;
	assert_bytes(b, nbd_build_block_status(b, NBD_STRUCTURED, &r, extents, 2),
		     STRUCTURED_STATUS "0000000c00000001"
				       "ffff000000000003");
	/* nothing follows what was cut, though more was asked for */
	assert_bytes(b, nbd_build_block_status(b, NBD_STRUCTURED, &r, longer, 2),
		     STRUCTURED_STATUS "0000000c00000001"
				       "ffff000000000003");
	r.flags = REQ_ONE;
	assert_bytes(b, nbd_build_block_status(b, NBD_EXTENDED, &r, extents, 2),
		     EXTENDED_STATUS "0000000000000018"
				     "00000001"
				     "00000001"
				     "00000000ffffffff0000000000000003");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(client_flags_are_known),
		cmocka_unit_test(options_of_real_clients_are_read),
		cmocka_unit_test(contexts_are_found),
		cmocka_unit_test(options_that_do_not_add_up_are_invalid),
		cmocka_unit_test(names_have_a_limit),
		cmocka_unit_test(options_are_refused_by_their_header),
		cmocka_unit_test(extended_headers_take_precedence),
		cmocka_unit_test(handshake_replies_are_those_of_real_servers),
		cmocka_unit_test(requests_of_real_clients_are_read),
		cmocka_unit_test(requests_that_lose_the_stream_end_it),
		cmocka_unit_test(commands_have_their_own_flags),
		cmocka_unit_test(what_was_not_offered_is_refused),
		cmocka_unit_test(a_read_only_export_is_only_read),
		cmocka_unit_test(ranges_stay_in_the_export),
		cmocka_unit_test(data_has_a_limit_and_other_lengths_none),
		cmocka_unit_test(ranges_are_aligned),
		cmocka_unit_test(errors_are_those_of_the_protocol),
		cmocka_unit_test(replies_are_those_of_real_servers),
		cmocka_unit_test(texts_of_errors_are_cut),
		cmocka_unit_test(block_status_is_that_of_real_servers),
		cmocka_unit_test(block_status_keeps_to_the_request),
		cmocka_unit_test(long_extents_are_cut_where_they_must),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
