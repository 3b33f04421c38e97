/* service/iperf/proto.c: the messages of iperf3's protocol, without connections. */
#include <errno.h>

#include "iperf/proto.h"
#include "unit.h"
#include "util.h"

static int parse(const char *json, struct iperf3_params *p)
{
	return iperf3_parse_params(json, strlen(json), p);
}

TEST(cookies_are_printable)
{
	uint8_t bytes[IPERF3_COOKIE] = "abcdefghijklmnopqrstuvwxyz234567abcd";

	assert_true(iperf3_is_cookie(bytes));
	bytes[IPERF3_COOKIE - 1] = 'x';
	assert_false(iperf3_is_cookie(bytes));
	bytes[IPERF3_COOKIE - 1] = 0;
	bytes[7] = ' ';
	assert_false(iperf3_is_cookie(bytes));
	bytes[7] = 0;
	assert_false(iperf3_is_cookie(bytes));
}

TEST(parameters_mean_what_they_say)
{
	struct iperf3_params p;

	assert_int_equal(parse("{}", &p), 0);
	assert_true(p.receives && !p.sends);
	assert_int_equal(p.parallel, 1);
	assert_int_equal(p.len, IPERF3_LEN);
	assert_int_equal(p.limit_bytes, 0);
	assert_int_equal(
		parse("{\"tcp\":true,\"reverse\":true,\"time\":10,\"omit\":2,\"parallel\":3,"
		      "\"bandwidth\":1e6,\"burst\":4,\"fqrate\":5,\"window\":65536,"
		      "\"MSS\":1400,\"TOS\":8,\"congestion\":\"reno\",\"num\":1e10,"
		      "\"get_server_output\":1,\"client_version\":\"3.12\"}",
		      &p),
		0);
	assert_true(p.sends && !p.receives);
	assert_int_equal(p.time_s, 10);
	assert_int_equal(p.omit_s, 2);
	assert_int_equal(p.parallel, 3);
	assert_int_equal(p.rate, 1000000);
	assert_int_equal(p.burst, 4);
	assert_int_equal(p.fq_rate, 5);
	assert_int_equal(p.window, 65536);
	assert_int_equal(p.mss, 1400);
	assert_int_equal(p.tos, 8);
	assert_string_equal(p.congestion, "reno");
	assert_int_equal(p.limit_bytes, 10000000000);
	assert_int_equal(parse("{\"bidirectional\":true,\"blockcount\":7,\"len\":1000}", &p), 0);
	assert_true(p.sends && p.receives);
	assert_int_equal(p.limit_bytes, 7000);
	assert_int_equal(parse("{\"reverse\":false,\"blockcount\":1e18,\"len\":3}", &p), 0);
	assert_true(p.receives && p.limit_bytes <= UINT64_C(1) << 53);
}

TEST(wrong_parameters_get_the_error_that_says_so)
{
	static const struct {
		const char *json;
		int error;
	} wrong[] = {
		{ "", IPERF3_BAD_PARAMS },
		{ "[]", IPERF3_BAD_PARAMS },
		{ "{", IPERF3_BAD_PARAMS },
		{ "{\"num\":-1}", IPERF3_BAD_PARAMS },
		{ "{\"num\":\"1\"}", IPERF3_BAD_PARAMS },
		{ "{\"udp\":true,\"len\":15}", IPERF3_BAD_DATAGRAM },
		{ "{\"udp\":true,\"len\":65508}", IPERF3_BAD_DATAGRAM },
		{ "{\"sctp\":true}", IPERF3_NO_SCTP },
		{ "{\"authtoken\":\"x\"}", IPERF3_NO_AUTHORIZATION },
		{ "{\"parallel\":0}", IPERF3_BAD_PARALLEL },
		{ "{\"parallel\":129}", IPERF3_BAD_PARALLEL },
		{ "{\"time\":86401}", IPERF3_BAD_DURATION },
		{ "{\"omit\":601}", IPERF3_BAD_OMIT },
		{ "{\"len\":1048577}", IPERF3_BAD_LEN },
		{ "{\"window\":1e12}", IPERF3_BAD_WINDOW },
		{ "{\"MSS\":32768}", IPERF3_BAD_MSS },
		{ "{\"mptcp\":true}", IPERF3_NO_PROTOCOL },
		{ "{\"TOS\":256}", IPERF3_BAD_TOS },
		{ "{\"burst\":1001}", IPERF3_BAD_BURST },
		{ "{\"reverse\":true,\"bidirectional\":true}", IPERF3_REVERSE_BIDIR },
		{ "{\"congestion\":\"0123456789abcdef\"}", IPERF3_CONGESTION_FAILED },
		{ "{\"congestion\":1}", IPERF3_CONGESTION_FAILED },
	};
	struct iperf3_counted counted;
	struct iperf3_params p;

	for (unsigned i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_int_equal(parse(wrong[i].json, &p), wrong[i].error);
	assert_int_equal(iperf3_parse_results("{}", 2, &counted, 1), -EPROTO);
	assert_int_equal(iperf3_parse_results("{\"streams\":[{}]}", 16, &counted, 1), -EPROTO);
}

/* As iperf3 counts: a datagram that is late or comes twice takes one from those that are lost. */
TEST(datagrams_are_counted_by_their_numbers)
{
	static const struct {
		uint64_t numbers[6], high, lost;
	} cases[] = {
		{ { 1, 2, 3, 4 }, 4, 0 }, { { 3, 4 }, 4, 2 }, /* the first are lost */
		{ { 1, 2, 6 }, 6, 3 },                        /* a gap */
		{ { 1, 3, 2, 4 }, 4, 0 },                     /* late */
		{ { 1, 1, 2, 2 }, 2, 0 },                     /* twice */
		{ { 1, 4, 4, 5 }, 5, 1 },                     /* a gap, then twice */
	};
	uint8_t header[IPERF3_HEADER];

	for (unsigned wide = 0; wide < 2; wide++)
		for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
			struct iperf3_arrivals a = { 0 };

			for (const uint64_t *n = cases[i].numbers; *n; n++) {
				iperf3_build_header(header, wide, 0, *n);
				iperf3_arrived(&a, header, wide, 0);
			}
			assert_int_equal(a.high, cases[i].high);
			assert_int_equal(a.lost, cases[i].lost);
		}
}

/* RFC 1982: numbers of 32 bits begin again at 0; what is late is still known. */
TEST(numbers_of_32_bits_begin_again)
{
	static const uint64_t numbers[] = { 0, 1, UINT32_MAX, 2, 5, 4 };
	struct iperf3_arrivals a = { .high = UINT32_MAX - 1 };
	uint8_t header[IPERF3_HEADER];

	for (unsigned i = 0; i < ARRAY_SIZE(numbers); i++) {
		iperf3_build_header(header, false, 0, (1ULL << 32) + numbers[i]);
		iperf3_arrived(&a, header, false, 0);
	}
	assert_int_equal(a.high, (1ULL << 32) + 5);
	assert_int_equal(a.lost, 1); /* 3 */
	/* Behind the first one there is nothing. */
	a = (struct iperf3_arrivals){ 0 };
	iperf3_build_header(header, false, 0, UINT32_MAX);
	iperf3_arrived(&a, header, false, 0);
	assert_int_equal(a.high, 0);
	assert_int_equal(a.lost, 0);
}

/* RFC 1889, 6.3.1; no clock of the client's is ours. */
TEST(jitter_is_of_differences)
{
	static const uint64_t ms = NS_PER_MS, zero = 5000 * (uint64_t)NS_PER_S;
	struct iperf3_arrivals a = { 0 };
	uint8_t header[IPERF3_HEADER];
	double expected = 0;

	for (unsigned i = 0; i < 20; i++) {
		uint64_t late = i % 2 ? 3 * ms : 0;

		iperf3_build_header(header, true, zero + i * ms, i + 1);
		iperf3_arrived(&a, header, true, 77 * ms + i * ms + late);
		expected += ((i ? 3e-3 : 0) - expected) / 16;
		assert_true(a.jitter_s > expected - 1e-9 && a.jitter_s < expected + 1e-9);
	}
}

TEST(streams_of_datagrams_shake_hands)
{
	static const uint8_t begins[][4] = {
		{ 0x39, 0x38, 0x37, 0x36 },
		{ 0x36, 0x37, 0x38, 0x39 },
		{ 0x15, 0xcd, 0x5b, 0x07 },
		{ 0x07, 0x5b, 0xcd, 0x15 },
	};
	uint8_t answer[IPERF3_HANDSHAKE];

	for (unsigned i = 0; i < ARRAY_SIZE(begins); i++)
		assert_true(iperf3_is_handshake(begins[i], 4, answer));
	assert_memory_equal(answer, "\x3a\xde\x68\xb1", 4);
	assert_false(iperf3_is_handshake(begins[0], 3, answer));
	assert_false(iperf3_is_handshake((const uint8_t *)"98765", 5, answer));
	assert_false(iperf3_is_handshake((const uint8_t *)"\0\0\0", 4, answer));
}
