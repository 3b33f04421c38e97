/* service/nbd/option_proto.c: messages as real clients and servers send them (libnbd 1.14 and 1.22,
 * qemu 7.2 and 10.0, nbdkit 1.32), and invalid ones. */
#include <errno.h>

#include "hex.h"
#include "nbd/option_proto.h"
#include "unit.h"
#include "util.h"

#define OPT "49484156454f5054"
#define REP "0003e889045565a9"

/* Parses a whole option; the result of nbd_parse_option_data() for its data. */
static uint32_t option(const char *hex, bool structured, struct nbd_option *o)
{
	static struct bytes b; /* o->name points into it */

	b = bytes_of(hex);
	assert_int_equal(nbd_parse_option(b.data, NBD_TLS_ABSENT, o), 0);
	assert_int_equal(o->refusal, 0);
	assert_int_equal(b.count, NBD_OPTION + o->length);
	return nbd_parse_option_data(b.data + NBD_OPTION, structured, o);
}

#define ALLOCATION "0000000f626173653a616c6c6f636174696f6e"
#define BASE       "00000005626173653a"
#define QEMU       "0000000671656d753a78" /* "qemu:x" */

TEST(contexts_are_found)
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

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(option(cases[i].hex, true, &o), 0);
		assert_int_equal(o.allocation, cases[i].found);
		assert_int_equal(option(cases[i].hex, false, &o), NBD_REP_ERR_INVALID);
	}
}

TEST(options_that_do_not_add_up_are_invalid)
{
	static const char *const cases[] = {
		OPT "000000030000000100",             /* LIST, and data */
		OPT "000000080000000100",             /* STRUCTURED_REPLY */
		OPT "00000001000000026400",           /* NUL in a name */
		OPT "0000000700000000",               /* GO without anything */
		OPT "00000007000000056400000000",     /* a name beyond the data */
		OPT "0000000700000006ffffffff0000",   /* and far beyond */
		OPT "000000070000000400000000",       /* no number of requests */
		OPT "0000000700000006000000000001",   /* a request is missing */
		OPT "000000070000000700000000000000", /* a byte too many */
		OPT "00000007000000070000000100"
		    "0000", /* NUL */
		OPT "0000000700000008000000000001"
		    "0003"
		    "00",                         /* a byte too many */
		OPT "00000009000000040000000000", /* no number of queries */
		OPT "0000000900000008"
		    "00000000"
		    "00000001", /* a query is missing */
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

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct bytes b = bytes_of(cases[i]);
		struct nbd_option was;

		assert_int_equal(nbd_parse_option(b.data, NBD_TLS_ABSENT, &o), 0);
		o.length = (uint32_t)(b.count - NBD_OPTION);
		was = o;
		assert_int_equal(nbd_parse_option_data(b.data + NBD_OPTION, true, &o),
				 NBD_REP_ERR_INVALID);
		assert_memory_equal(&o, &was, sizeof(o));
	}
}

TEST(names_have_a_limit)
{
	static const uint8_t most[] = { 0, 0, 16, 0 }, more[] = { 0, 0, 16, 1 };
	static uint8_t data[NBD_OPTION_MAX];
	struct nbd_option o = { .type = NBD_OPT_EXPORT_NAME, .length = NBD_NAME_MAX };

	memset(data, 'x', sizeof(data));
	assert_int_equal(nbd_parse_option_data(data, false, &o), 0);
	assert_int_equal(o.name.bytes, NBD_NAME_MAX);
	o.length++;
	assert_int_equal(nbd_parse_option_data(data, false, &o), NBD_REP_ERR_INVALID);
	o = (struct nbd_option){ .type = NBD_OPT_GO, .length = 4 + NBD_NAME_MAX + 1 + 2 };
	memcpy(data, more, sizeof(more));
	memset(data + 4 + NBD_NAME_MAX + 1, 0, 2);
	assert_int_equal(nbd_parse_option_data(data, false, &o), NBD_REP_ERR_INVALID);
	o.length--;
	memcpy(data, most, sizeof(most));
	memset(data + 4 + NBD_NAME_MAX, 0, 2);
	assert_int_equal(nbd_parse_option_data(data, false, &o), 0);
}

TEST(options_are_refused_by_their_header)
{
	static const struct {
		const char *hex;
		int rc;
		uint32_t refusal;
	} cases[] = {
		{ OPT "0000000500000000", 0, NBD_REP_ERR_UNSUP }, /* STARTTLS */
		{ OPT "0000000400000000", 0, NBD_REP_ERR_UNSUP }, /* the withdrawn PEEK_EXPORT */
		{ OPT "0000000000000000", 0, NBD_REP_ERR_UNSUP },
		{ OPT "0000000b00000000", 0, NBD_REP_ERR_UNSUP }, /* EXTENDED_HEADERS */
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

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct nbd_option o = { .refusal = 0 };

		assert_int_equal(nbd_parse_option(bytes_of(cases[i].hex).data, NBD_TLS_ABSENT, &o),
				 cases[i].rc);
		assert_int_equal(o.refusal, cases[i].refusal);
	}
}

TEST(tls_comes_before_all_other_options)
{
	static const struct {
		const char *hex;
		enum nbd_tls tls;
		int rc;
		uint32_t refusal;
	} cases[] = {
		{ OPT "0000000500000000", NBD_TLS_REQUIRED, 0, 0 }, /* STARTTLS */
		{ OPT "0000000200000000", NBD_TLS_REQUIRED, 0, 0 }, /* ABORT */
		{ OPT "0000000300000000", NBD_TLS_REQUIRED, 0, NBD_REP_ERR_TLS_REQD }, /* LIST */
		{ OPT "0000000704000000", NBD_TLS_REQUIRED, 0, NBD_REP_ERR_TLS_REQD }, /* GO */
		{ OPT "0000000c00000000", NBD_TLS_REQUIRED, 0, NBD_REP_ERR_TLS_REQD },
		{ OPT "0000000100000000", NBD_TLS_REQUIRED, -EPROTO, 0 }, /* EXPORT_NAME */
		{ OPT "0000000500000000", NBD_TLS_ON, 0, NBD_REP_ERR_INVALID },
		{ OPT "0000000300000000", NBD_TLS_ON, 0, 0 },
		{ OPT "0000000100000000", NBD_TLS_ON, 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct nbd_option o = { .refusal = 0 };

		assert_int_equal(nbd_parse_option(bytes_of(cases[i].hex).data, cases[i].tls, &o),
				 cases[i].rc);
		assert_int_equal(o.refusal, cases[i].refusal);
	}
}

TEST(the_data_of_abort_does_not_matter)
{
	struct nbd_option o;

	assert_int_equal(option(OPT "0000000200000002ffff", true, &o), 0);
}

/* As nbdkit and qemu-nbd answer the same. */
TEST(handshake_replies_are_those_of_real_servers)
{
	uint8_t b[NBD_OPTION_REPLY_MAX], export[NBD_EXPORT_REPLY_MAX], zeros[124] = { 0 };
	static char name[NBD_NAME_MAX + 2];

	assert_bytes(b, nbd_build_greeting(b), "4e42444d4147494349484156454f50540003");
	assert_bytes(b, nbd_build_ack(b, NBD_OPT_GO), REP "000000070000000100000000");
	assert_bytes(b, nbd_build_server(b, ""), REP "00000003000000020000000400000000");
	assert_bytes(b, nbd_build_server(b, "disk"),
		     REP "000000030000000200000008000000046469736b");
	assert_bytes(b, nbd_build_info_export(b, NBD_OPT_INFO, 1 << 20, 0x05ed),
		     REP "00000006000000030000000c0000000000000010000005ed");
	assert_bytes(b, nbd_build_info_block_size(b, NBD_OPT_GO, 1, 4096, NBD_PAYLOAD_MAX),
		     REP "00000007000000030000000e0003000000010000100004000000");
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
	assert_int_equal(nbd_build_option_error(b, 1, NBD_REP_ERR_UNKNOWN, name),
			 20 + NBD_TEXT_MAX);
}
