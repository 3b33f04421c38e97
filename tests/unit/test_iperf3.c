/* service/iperf3*.c: the messages of a client, the server's answers, and that a test leaves nothing
 * behind. */
#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_engine.h"
#include "iperf/proto.h"
#include "iperf/test.h"
#include "registry.h"

enum { CHUNKS = 128, CHUNK = 4096, KIB = 1024 };

static const char cookie[IPERF3_COOKIE] = "abcdefghijklmnopqrstuvwxyz234567abcd";

/* ---- The protocol ---- */

static int parse(const char *json, struct iperf3_params *p)
{
	return iperf3_parse_params(json, strlen(json), p);
}

static void cookies_are_printable(void **state)
{
	uint8_t bytes[IPERF3_COOKIE];

	(void)state;
	memcpy(bytes, cookie, sizeof(bytes));
	assert_true(iperf3_is_cookie(bytes));
	bytes[IPERF3_COOKIE - 1] = 'x';
	assert_false(iperf3_is_cookie(bytes));
	bytes[IPERF3_COOKIE - 1] = 0;
	bytes[7] = ' ';
	assert_false(iperf3_is_cookie(bytes));
	bytes[7] = 0;
	assert_false(iperf3_is_cookie(bytes));
}

static void lengths_have_a_limit(void **state)
{
	(void)state;
	assert_int_equal(iperf3_parse_length((const uint8_t *)"\0\0\0\1", 10), 1);
	assert_int_equal(iperf3_parse_length((const uint8_t *)"\0\0\0\12", 10), 10);
	assert_int_equal(iperf3_parse_length((const uint8_t *)"\0\0\0\13", 10), -EPROTO);
	assert_int_equal(iperf3_parse_length((const uint8_t *)"\0\0\0\0", 10), -EPROTO);
	assert_int_equal(iperf3_parse_length((const uint8_t *)"\377\377\377\377", 10), -EPROTO);
}

static void parameters_mean_what_they_say(void **state)
{
	struct iperf3_params p;

	(void)state;
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
	assert_true(p.sends && !p.receives && p.server_output);
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

static void wrong_parameters_get_the_error_that_says_so(void **state)
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
		{ "{\"MSS\":9217}", IPERF3_BAD_MSS },
		{ "{\"TOS\":256}", IPERF3_BAD_TOS },
		{ "{\"burst\":1001}", IPERF3_BAD_BURST },
		{ "{\"reverse\":true,\"bidirectional\":true}", IPERF3_REVERSE_BIDIR },
		{ "{\"congestion\":\"0123456789abcdef\"}", IPERF3_CONGESTION_FAILED },
		{ "{\"congestion\":1}", IPERF3_CONGESTION_FAILED },
	};
	struct iperf3_params p;

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_int_equal(parse(wrong[i].json, &p), wrong[i].error);
}

/* As iperf3 counts: a datagram that is late or comes twice takes one from those that are lost. */
static void datagrams_are_counted_by_their_numbers(void **state)
{
	static const struct {
		uint64_t numbers[6], high, lost, order;
	} cases[] = {
		{ { 1, 2, 3, 4 }, 4, 0, 0 },
		{ { 3, 4 }, 4, 2, 0 },       /* the first are lost */
		{ { 1, 2, 6 }, 6, 3, 0 },    /* a gap */
		{ { 1, 3, 2, 4 }, 4, 0, 1 }, /* late */
		{ { 1, 1, 2, 2 }, 2, 0, 2 }, /* twice */
		{ { 1, 4, 4, 5 }, 5, 1, 1 }, /* a gap, then twice */
		{ { UINT32_MAX }, UINT32_MAX, UINT32_MAX - 1, 0 },
	};
	uint8_t header[IPERF3_HEADER];

	(void)state;
	for (unsigned wide = 0; wide < 2; wide++)
		for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
			struct iperf3_arrivals a = { 0 };

			for (const uint64_t *n = cases[i].numbers; *n; n++) {
				iperf3_build_header(header, wide, 0, *n);
				iperf3_arrived(&a, header, wide, 0);
			}
			assert_int_equal(a.high, cases[i].high);
			assert_int_equal(a.lost, cases[i].lost);
			assert_int_equal(a.order, cases[i].order);
		}
}

/* RFC 1889, 6.3.1; no clock of the client's is ours. */
static void jitter_is_of_differences(void **state)
{
	static const uint64_t ms = NS_PER_MS, zero = 5000 * (uint64_t)NS_PER_S;
	struct iperf3_arrivals a = { 0 };
	uint8_t header[IPERF3_HEADER];
	double expected = 0;

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		uint64_t late = i % 2 ? 3 * ms : 0;

		iperf3_build_header(header, true, zero + i * ms, i + 1);
		iperf3_arrived(&a, header, true, 77 * ms + i * ms + late);
		expected += ((i ? 3e-3 : 0) - expected) / 16;
		assert_true(a.jitter_s > expected - 1e-9 && a.jitter_s < expected + 1e-9);
	}
}

static void streams_of_datagrams_shake_hands(void **state)
{
	static const uint8_t begins[][4] = {
		{ 0x39, 0x38, 0x37, 0x36 },
		{ 0x36, 0x37, 0x38, 0x39 },
		{ 0x15, 0xcd, 0x5b, 0x07 },
		{ 0x07, 0x5b, 0xcd, 0x15 },
	};
	uint8_t answer[IPERF3_HANDSHAKE];

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(begins); i++)
		assert_true(iperf3_is_handshake(begins[i], 4, answer));
	assert_memory_equal(answer, "\x3a\xde\x68\xb1", 4);
	assert_false(iperf3_is_handshake(begins[0], 3, answer));
	assert_false(iperf3_is_handshake((const uint8_t *)"98765", 5, answer));
	assert_false(iperf3_is_handshake((const uint8_t *)"\0\0\0", 4, answer));
}

static void results_come_back_as_they_went(void **state)
{
	struct iperf3_stream_result streams[] = {
		{ .bytes = 1, .seconds = 1, .datagrams = true, .packets = 77, .lost = 5 },
		{ .bytes = UINT64_C(1) << 52, .seconds = 2 },
		{ .sends = true, .bytes = 3, .retransmits = 4, .seconds = 3 },
	};
	struct iperf3_results r = { .streams = streams, .count = 3, .congestion = "reno" };
	struct iperf3_counted counted[4];
	double cpu;
	size_t length;
	char *text = iperf3_build_results(&r, &length);

	(void)state;
	assert_non_null(text);
	assert_int_equal(iperf3_parse_results(text + 4, length - 4, counted, 4, &cpu), 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(counted[i].bytes, streams[i].bytes);
		assert_int_equal(counted[i].packets, streams[i].packets);
		assert_int_equal(counted[i].lost, streams[i].lost);
		assert_int_equal(counted[i].retransmits, streams[i].retransmits);
		assert_true(counted[i].seconds == streams[i].seconds);
	}
	assert_int_equal(counted[3].bytes, 0);
	free(text);
	assert_int_equal(iperf3_parse_results("{}", 2, counted, 4, &cpu), -EPROTO);
	assert_int_equal(iperf3_parse_results("{\"streams\":[{}]}", 16, counted, 4, &cpu), -EPROTO);
	assert_int_equal(iperf3_stream_id(0), 1);
	assert_int_equal(iperf3_stream_id(1), 3);
	assert_int_equal(iperf3_stream_id(2), 4);
}

/* ---- Whole tests ---- */

struct scene {
	struct fake *fake;
	struct fake_peer *control;
	struct fake_peer *streams[8];
	unsigned stream_count;
	size_t seen; /* bytes of control's output */
};

static struct scene scene_start(void)
{
	const struct service *service = service_find("iperf3");
	struct scene s = { .fake = fake_start(service, CHUNKS, CHUNK, 0) };
	struct reason reason;

	s.fake->worker.shared = service->shared_new(NULL, NULL, &reason);
	assert_non_null(s.fake->worker.shared);
	return s;
}

/* A call to another connection arrives in the turn after: as many as a test has steps. */
static void settle(struct scene *s)
{
	for (unsigned i = 0; i < 6; i++)
		fake_settle(s->fake);
}

static void scene_stop(struct scene *s)
{
	struct sessions *registry = s->fake->worker.shared;

	for (unsigned i = 0; i < s->fake->peer_count; i++)
		if (s->fake->peers[i].conn)
			fake_reset(s->fake, &s->fake->peers[i]);
	settle(s);
	assert_int_equal(sessions_count(registry), 0);
	fake_stop(s->fake);
	sessions_free(registry);
}

static void expect_state(struct scene *s, uint8_t expected)
{
	settle(s);
	assert_true(s->control->out_bytes > s->seen);
	assert_int_equal(s->control->out[s->seen++], expected);
}

static void expect_error(struct scene *s, int error)
{
	uint8_t expected[IPERF3_ERROR];

	settle(s);
	iperf3_build_error(error, expected);
	assert_int_equal(s->control->out_bytes - s->seen, IPERF3_ERROR);
	assert_memory_equal(s->control->out + s->seen, expected, IPERF3_ERROR);
}

static void send_json(struct scene *s, const char *json, size_t piece)
{
	uint32_t length = htobe32((uint32_t)strlen(json));

	fake_send_all(s->fake, s->control, &length, sizeof(length), piece);
	fake_send_all(s->fake, s->control, json, strlen(json), piece);
}

static void send_state(struct scene *s, uint8_t client_state)
{
	fake_send_all(s->fake, s->control, &client_state, 1, 1);
}

static void set_up(struct scene *s, const char *json, size_t piece)
{
	s->control = fake_connect(s->fake);
	s->seen = s->stream_count = 0;
	fake_send_all(s->fake, s->control, cookie, sizeof(cookie), piece);
	expect_state(s, IPERF3_PARAM_EXCHANGE);
	send_json(s, json, piece);
}

static struct fake_peer *open_stream(struct scene *s, size_t piece)
{
	struct fake_peer *peer = fake_connect(s->fake);

	fake_send_all(s->fake, peer, cookie, sizeof(cookie), piece);
	s->streams[s->stream_count++] = peer;
	return peer;
}

static void run(struct scene *s, const char *json, unsigned streams, size_t piece)
{
	set_up(s, json, piece);
	expect_state(s, IPERF3_CREATE_STREAMS);
	for (unsigned i = 0; i < streams; i++) {
		assert_int_equal(s->control->out_bytes, s->seen);
		open_stream(s, piece);
	}
	expect_state(s, IPERF3_TEST_START);
	expect_state(s, IPERF3_TEST_RUNNING);
	settle(s);
	assert_int_equal(s->control->out_bytes, s->seen);
}

/* Ends the test and reads the server's results: the bytes of each of `count` streams. */
static void finish(struct scene *s, const char *json, uint64_t *ret_bytes, unsigned count)
{
	struct iperf3_counted counted[4];
	double cpu;
	const char *text;
	int bytes;

	assert_true(count <= ARRAY_SIZE(counted));
	send_state(s, IPERF3_TEST_END);
	expect_state(s, IPERF3_EXCHANGE_RESULTS);
	send_json(s, json, 7);
	assert_true(s->control->out_bytes > s->seen + IPERF3_LENGTH);
	bytes = iperf3_parse_length(s->control->out + s->seen, IPERF3_RESULTS_MAX);
	text = (const char *)s->control->out + s->seen + IPERF3_LENGTH;
	assert_int_equal(iperf3_parse_results(text, (size_t)bytes, counted, count, &cpu), 0);
	for (unsigned i = 0; i < count; i++)
		ret_bytes[i] = counted[i].bytes;
	s->seen += IPERF3_LENGTH + (size_t)bytes;
	expect_state(s, IPERF3_DISPLAY_RESULTS);
	assert_int_equal(s->control->out_bytes, s->seen);
	send_state(s, IPERF3_DONE);
	settle(s);
	assert_null(s->control->conn);
	for (unsigned i = 0; i < s->stream_count; i++)
		assert_null(s->streams[i]->conn);
}

static void forward_counts_however_it_is_cut(void **state)
{
	static const size_t pieces[] = { 1, 3, 36, 37, 4096 };
	static const char data[5000];
	struct scene s = scene_start();

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(pieces); i++) {
		uint64_t bytes[2];

		run(&s, "{\"parallel\":2}", 2, pieces[i]);
		fake_send_all(s.fake, s.streams[0], data, 5000, pieces[i]);
		fake_send_all(s.fake, s.streams[1], data, 123, pieces[i]);
		finish(&s, "{\"streams\":[{\"id\":1,\"bytes\":5000},{\"id\":3,\"bytes\":123}]}",
		       bytes, 2);
		assert_int_equal(bytes[0], 5000);
		assert_int_equal(bytes[1], 123);
	}
	scene_stop(&s);
}

static void reverse_sends_no_more_than_asked(void **state)
{
	struct scene s = scene_start();
	uint64_t bytes[2];

	(void)state;
	for (unsigned completion = 0; completion < 2; completion++) {
		s.fake->completion = completion;
		run(&s, "{\"parallel\":2,\"reverse\":true,\"num\":1000000,\"len\":1000}", 2, 37);
		assert_int_equal(s.streams[0]->out_bytes + s.streams[1]->out_bytes, 1000000);
		finish(&s, "{\"streams\":[]}", bytes, 2);
		assert_int_equal(bytes[0], s.streams[0]->out_bytes);
		assert_int_equal(bytes[1], s.streams[1]->out_bytes);
	}
	scene_stop(&s);
}

/* A client may read a whole block before it handles any other event. */
static void senders_send_whole_blocks(void **state)
{
	static const char *const params[] = {
		"{\"reverse\":true,\"parallel\":2,\"num\":1,\"len\":1000}",
		"{\"reverse\":true,\"parallel\":2,\"num\":1000000,\"len\":3001}",
		"{\"reverse\":true,\"parallel\":2,\"blockcount\":7,\"len\":300000}",
		"{\"reverse\":true,\"parallel\":2,\"num\":9000,\"len\":2000,\"bandwidth\":1}",
	};
	static const unsigned total[] = { 1000, 334 * 3001, 7 * 300000, 2 * 2000 };
	static const unsigned len[] = { 1000, 3001, 300000, 2000 };
	struct scene s = scene_start();
	uint64_t bytes[2];

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(params); i++) {
		run(&s, params[i], 2, 37);
		assert_int_equal(s.streams[0]->out_bytes % len[i], 0);
		assert_int_equal(s.streams[1]->out_bytes % len[i], 0);
		assert_int_equal(s.streams[0]->out_bytes + s.streams[1]->out_bytes, total[i]);
		finish(&s, "{\"streams\":[]}", bytes, 2);
	}
	scene_stop(&s);
}

static void a_client_that_does_not_read_costs_one_queue(void **state)
{
	struct scene s = scene_start();

	(void)state;
	s.fake->room = 1000;
	run(&s, "{\"reverse\":true}", 1, 37);
	assert_int_equal(s.streams[0]->out_bytes, 1000);
	assert_in_range(s.streams[0]->conn->tx.bytes, 1, WORKER_TURN_BYTES);
	assert_true(fake_chunks_used(s.fake) < 8);
	scene_stop(&s);
}

/* However little is due at a time: here a byte each microsecond, and all at once. */
static void small_blocks_share_views(void **state)
{
	static const char *const params[] = {
		"{\"reverse\":true,\"len\":1,\"bandwidth\":8000000}",
		"{\"reverse\":true,\"len\":1,\"bandwidth\":8000000000000}",
		"{\"reverse\":true,\"len\":1,\"burst\":7,\"bandwidth\":8000000000000}",
	};
	struct scene s = scene_start();

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(params); i++) {
		s.fake->room = 1000;
		run(&s, params[i], 1, 37);
		for (unsigned turn = 0; turn < 1000; turn++) {
			conn_ready(s.streams[0]->conn);
			fake_turn(s.fake);
		}
		assert_in_range(s.streams[0]->conn->tx.views, 1, WORKER_TURN_BYTES / CHUNK + 1);
		assert_in_range(s.streams[0]->conn->tx.bytes, 1, WORKER_TURN_BYTES + CHUNK);
		fake_reset(s.fake, s.control);
		settle(&s);
	}
	scene_stop(&s);
}

static void data_before_the_start_ends_the_stream(void **state)
{
	struct scene s = scene_start();

	(void)state;
	set_up(&s, "{\"parallel\":2}", 37);
	expect_state(&s, IPERF3_CREATE_STREAMS);
	open_stream(&s, 37);
	fake_send(s.fake, s.streams[0], "early", 5);
	expect_error(&s, IPERF3_STREAM_LOST);
	assert_null(s.streams[0]->conn);
	assert_int_equal(stat_load(s.fake->worker.stats.closed_protocol), 1);
	scene_stop(&s);
}

static void bidir_knows_receivers_by_their_data(void **state)
{
	struct scene s = scene_start();
	uint64_t bytes[4];

	(void)state;
	run(&s, "{\"parallel\":2,\"bidirectional\":true,\"num\":100000,\"len\":1000}", 4, 37);
	/* The last ones receive: order does not matter. */
	fake_send_all(s.fake, s.streams[3], "abc", 3, 3);
	assert_int_equal(s.streams[0]->out_bytes, 0);
	fake_send_all(s.fake, s.streams[2], "abcd", 4, 4);
	settle(&s);
	assert_int_equal(s.streams[0]->out_bytes + s.streams[1]->out_bytes, 100000);
	finish(&s, "{\"streams\":[]}", bytes, 4);
	assert_int_equal(bytes[0], 4);
	assert_int_equal(bytes[1], 3);
	assert_int_equal(bytes[2] + bytes[3], 100000);
	scene_stop(&s);
}

static void bidir_without_data_ends(void **state)
{
	struct scene s = scene_start();
	uint64_t bytes[2];

	(void)state;
	run(&s, "{\"bidirectional\":true}", 2, 37);
	finish(&s, "{\"streams\":[]}", bytes, 2);
	assert_int_equal(bytes[0] + bytes[1], 0);
	scene_stop(&s);
}

static void refusals_say_why(void **state)
{
	struct scene s = scene_start();

	(void)state;
	set_up(&s, "{\"udp\":true}", 5);
	expect_error(&s, IPERF3_NO_PROTOCOL);
	/* The connection stays until the client has read the error. */
	assert_non_null(s.control->conn);
	fake_eof(s.fake, s.control);
	settle(&s);
	assert_null(s.control->conn);
	set_up(&s, "nonsense", 5);
	expect_error(&s, IPERF3_BAD_PARAMS);
	fake_reset(s.fake, s.control);
	settle(&s);
	/* An option that cannot be set on this socket. */
	set_up(&s, "{\"window\":4096}", 37);
	expect_state(&s, IPERF3_CREATE_STREAMS);
	open_stream(&s, 37);
	expect_error(&s, IPERF3_BUFFER_FAILED);
	scene_stop(&s);
}

static void no_stream_too_many(void **state)
{
	struct scene s = scene_start();
	struct fake_peer *more;

	(void)state;
	run(&s, "{}", 1, 37);
	more = open_stream(&s, 37);
	assert_int_equal(more->out_bytes, 1);
	assert_int_equal(more->out[0], IPERF3_ACCESS_DENIED);
	assert_non_null(s.streams[0]->conn);
	scene_stop(&s);
}

static void streams_end_with_control(void **state)
{
	struct scene s = scene_start();

	(void)state;
	for (unsigned how = 0; how < 4; how++) {
		run(&s, "{\"parallel\":3}", 3, 37);
		if (how == 0)
			fake_eof(s.fake, s.control);
		else if (how == 1)
			fake_reset(s.fake, s.control);
		else
			send_state(&s, how == 2 ? IPERF3_CLIENT_TERMINATE : 99);
		settle(&s);
		assert_null(s.control->conn);
		for (unsigned i = 0; i < 3; i++)
			assert_null(s.streams[i]->conn);
		assert_int_equal(sessions_count(s.fake->worker.shared), 0);
	}
	scene_stop(&s);
}

static void states_that_arrive_together_are_all_handled(void **state)
{
	static const uint8_t states[] = { IPERF3_TEST_START, IPERF3_TEST_START, IPERF3_TEST_END };
	struct scene s = scene_start();

	(void)state;
	run(&s, "{}", 1, 37);
	fake_send_all(s.fake, s.control, states, sizeof(states), sizeof(states));
	expect_state(&s, IPERF3_EXCHANGE_RESULTS);
	fake_reset(s.fake, s.control);
	settle(&s);
	/* None of theirs. */
	run(&s, "{}", 1, 37);
	send_state(&s, 0);
	settle(&s);
	assert_null(s.control->conn);
	scene_stop(&s);
}

static void the_end_of_a_drain_ends_a_test(void **state)
{
	struct scene s = scene_start();
	struct worker *w = &s.fake->worker;

	(void)state;
	run(&s, "{}", 1, 37);
	w->drain.deadline_ns = clock_ns() + 60 * (uint64_t)NS_PER_S;
	w->drain.on = true;
	send_state(&s, IPERF3_TEST_START);
	settle(&s);
	assert_int_equal(s.control->out_bytes, s.seen);
	w->drain.deadline_ns = clock_ns();
	send_state(&s, IPERF3_TEST_START);
	expect_state(&s, IPERF3_SERVER_TERMINATE);
	assert_int_equal(stat_load(w->stats.operations[0].errors), 1);
	scene_stop(&s);
}

/* Nothing comes for longer than a drain waits for idle connections: the client gets no CPU, or its
 * rate is low. */
static void a_drain_lets_a_silent_test_end(void **state)
{
	struct scene s = scene_start();
	struct worker *w = &s.fake->worker;
	uint64_t bytes;

	(void)state;
	run(&s, "{}", 1, 37);
	w->drain.deadline_ns = clock_ns() + 60 * (uint64_t)NS_PER_S;
	w->drain.on = true;
	w->drain.timer.due(&w->drain.timer, clock_ns() + 2 * (uint64_t)WORKER_QUIET_NS);
	settle(&s);
	assert_non_null(s.control->conn);
	assert_non_null(s.streams[0]->conn);
	fake_send_all(s.fake, s.streams[0], "12345", 5, 5);
	finish(&s, "{\"streams\":[{\"id\":1,\"bytes\":5}]}", &bytes, 1);
	assert_int_equal(bytes, 5);
	scene_stop(&s);
}

/* Streams may be accepted in another order than they were opened. */
static void streams_are_told_apart_by_the_bytes_sent(void **state)
{
	static const char data[5000];
	struct scene s = scene_start();
	uint64_t bytes[3];

	(void)state;
	run(&s, "{\"parallel\":3}", 3, 37);
	fake_send_all(s.fake, s.streams[0], data, 123, 123);
	fake_send_all(s.fake, s.streams[1], data, 4000, 4000);
	fake_send_all(s.fake, s.streams[2], data, 17, 17);
	finish(&s,
	       "{\"streams\":[{\"id\":1,\"bytes\":17},{\"id\":3,\"bytes\":123},"
	       "{\"id\":4,\"bytes\":4000}]}",
	       bytes, 3);
	assert_int_equal(bytes[0], 17);
	assert_int_equal(bytes[1], 123);
	assert_int_equal(bytes[2], 4000);
	scene_stop(&s);
}

static void lost_streams_keep_their_count(void **state)
{
	struct scene s = scene_start();
	uint64_t bytes[2];

	(void)state;
	run(&s, "{\"parallel\":2}", 2, 37);
	fake_send_all(s.fake, s.streams[0], "abc", 3, 3);
	fake_reset(s.fake, s.streams[0]);
	settle(&s);
	finish(&s, "{\"streams\":[]}", bytes, 2);
	assert_int_equal(bytes[0], 3);
	/* Before the start a test cannot continue without a data connection. */
	set_up(&s, "{\"parallel\":2}", 37);
	expect_state(&s, IPERF3_CREATE_STREAMS);
	fake_reset(s.fake, open_stream(&s, 37));
	settle(&s);
	expect_error(&s, IPERF3_STREAM_LOST);
	scene_stop(&s);
}

/* Gives each connection a client address of its own, made from its number. */
static void address_of_client(const struct conn *c, struct sockaddr_storage *ret)
{
	*ret = (struct sockaddr_storage){ .ss_family = AF_INET };
	((struct sockaddr_in *)ret)->sin_addr.s_addr = htonl(0x0a000000 + (uint32_t)c->id);
}

/* Begins tests until `client` is refused; returns their number, the members hold them. */
static unsigned begin_all(struct sessions *r, struct conn *client, struct iperf3_member **members)
{
	uint8_t name[IPERF3_COOKIE];
	unsigned i = 0;
	int rc;

	memcpy(name, cookie, sizeof(name));
	memcpy(name + 8, &client->id, 4);
	do {
		assert_non_null(members[i] = calloc(1, sizeof(**members)));
		members[i]->of.sessions = r;
		members[i]->of.conn = client;
		memcpy(name, &i, sizeof(i));
		rc = iperf3_enter(members[i], name);
	} while (rc == 0 && ++i <= SESSIONS_MAX);
	assert_int_equal(rc, -EBUSY);
	iperf3_leave(members[i]);
	return i;
}

static void one_client_leaves_places_for_others(void **state)
{
	static const struct engine_clients no_sockets = { .peer = address_of_client };
	static const struct engine engine = { .clients = &no_sockets };
	struct reason reason;
	struct sessions *r = sessions_new(NULL, NULL, &reason);
	struct iperf3_member **members = calloc(2 * SESSIONS_MAX, sizeof(struct iperf3_member *));
	struct worker *w = aligned_alloc(CACHE_LINE, sizeof(*w));
	struct conn clients[] = { { .worker = w, .fd = -1, .id = 1 },
				  { .worker = w, .fd = -1, .id = 2 } };
	unsigned first, second;

	(void)state;
	assert_non_null(members);
	assert_non_null(memset(w, 0, sizeof(*w)));
	w->engine = &engine;
	first = begin_all(r, &clients[0], members);
	assert_int_equal(first, SESSIONS_MAX / 2);
	second = begin_all(r, &clients[1], members + first);
	assert_int_equal(second, SESSIONS_MAX / 4);
	assert_int_equal(sessions_count(r), first + second);
	for (unsigned i = 0; i < first + second; i++)
		iperf3_leave(members[i]);
	assert_int_equal(sessions_count(r), 0);
	assert_int_equal(begin_all(r, &clients[1], members), SESSIONS_MAX / 2);
	for (unsigned i = 0; i < SESSIONS_MAX / 2; i++)
		iperf3_leave(members[i]);
	sessions_free(r);
	free(members);
	free(w);
}

/* ---- Twins ---- */

/* A call that is posted to the control connection when that leaves must not use a twin's table any
 * more: the twin's listener may have been freed when the call arrives. */
static void calls_outlive_twins(void **state)
{
	static const struct engine_clients no_sockets = { .peer = address_of_client };
	static const struct engine engine = { .clients = &no_sockets };
	struct sockaddr_storage local = { .ss_family = AF_INET };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	const struct service *service = service_find("iperf3");
	struct session_member *control = calloc(1, sizeof(*control));
	struct session *session = calloc(1, sizeof(*session));
	struct worker *w = aligned_alloc(CACHE_LINE, sizeof(*w));
	socklen_t length = sizeof(local);
	struct conn c = { .worker = w, .fd = -1 };
	struct session_twin twin;
	struct sessions *own, *udp;
	struct reason reason;

	(void)state;
	assert_non_null(memset(w, 0, sizeof(*w)));
	w->engine = &engine;
	assert_int_equal(mailbox_init(&w->mailbox), 0);
	own = w->shared = sessions_new(NULL, NULL, &reason);
	udp = sessions_new(NULL, NULL, &reason);
	assert_int_equal(bind(fd, (struct sockaddr *)&local, sizeof(struct sockaddr_in)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&local, &length), 0);
	sessions_listen(udp, service, &(struct service_place){ &transport_udp, local, fd });
	assert_true(session_twin_get(service, &local, &twin));
	session_member_init(control, &c);
	assert_int_equal(session_begin(session, control, "tcp", 3), 0);
	assert_int_equal(session_move(session, twin.sessions, "udp", 3), 0);
	sessions_free(udp); /* the listener has gone; control still has its twin */
	sessions_lock(twin.sessions);
	session_call(control);
	sessions_unlock(twin.sessions);
	session_leave(control, NULL);
	assert_ptr_equal(control->sessions, own);
	session_twin_put(&twin);
	mailbox_run(&w->mailbox);
	sessions_free(own);
	mailbox_fini(&w->mailbox);
	free(w);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cookies_are_printable),
		cmocka_unit_test(lengths_have_a_limit),
		cmocka_unit_test(parameters_mean_what_they_say),
		cmocka_unit_test(wrong_parameters_get_the_error_that_says_so),
		cmocka_unit_test(results_come_back_as_they_went),
		cmocka_unit_test(datagrams_are_counted_by_their_numbers),
		cmocka_unit_test(jitter_is_of_differences),
		cmocka_unit_test(streams_of_datagrams_shake_hands),
		cmocka_unit_test(forward_counts_however_it_is_cut),
		cmocka_unit_test(reverse_sends_no_more_than_asked),
		cmocka_unit_test(senders_send_whole_blocks),
		cmocka_unit_test(a_client_that_does_not_read_costs_one_queue),
		cmocka_unit_test(small_blocks_share_views),
		cmocka_unit_test(data_before_the_start_ends_the_stream),
		cmocka_unit_test(bidir_knows_receivers_by_their_data),
		cmocka_unit_test(bidir_without_data_ends),
		cmocka_unit_test(refusals_say_why),
		cmocka_unit_test(no_stream_too_many),
		cmocka_unit_test(streams_end_with_control),
		cmocka_unit_test(states_that_arrive_together_are_all_handled),
		cmocka_unit_test(the_end_of_a_drain_ends_a_test),
		cmocka_unit_test(a_drain_lets_a_silent_test_end),
		cmocka_unit_test(streams_are_told_apart_by_the_bytes_sent),
		cmocka_unit_test(lost_streams_keep_their_count),
		cmocka_unit_test(one_client_leaves_places_for_others),
		cmocka_unit_test(calls_outlive_twins),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
