/* service/iperf: whole tests of a client, however their bytes arrive, and that a test leaves
 * nothing behind. */
#include <endian.h>
#include <errno.h>

#include "fake_engine.h"
#include "iperf/proto.h"
#include "iperf/test.h"
#include "registry.h"
#include "unit.h"

enum { CHUNKS = 128, CHUNK = 4096 };

static const char cookie[IPERF3_COOKIE] = "abcdefghijklmnopqrstuvwxyz234567abcd";

struct scene {
	struct fake *fake;
	struct fake_peer *control;
	struct fake_peer *streams[8];
	unsigned stream_count;
	size_t seen; /* bytes of control's output */
};

static int scene_start(void **state)
{
	const struct service *service = registry_service("iperf3");
	struct scene *s = calloc(1, sizeof(*s));
	struct reason reason;

	assert_non_null(s);
	s->fake = fake_start(service, CHUNKS, CHUNK, 0);
	s->fake->worker.shared = service->shared_new(NULL, NULL, &reason);
	assert_non_null(s->fake->worker.shared);
	*state = s;
	return 0;
}

/* A call to another connection arrives in the turn after: as many as a test has steps. */
static void settle(struct scene *s)
{
	for (unsigned i = 0; i < 6; i++)
		fake_settle(s->fake);
}

static int scene_stop(void **state)
{
	struct scene *s = *state;
	struct sessions *registry = s->fake->worker.shared;

	for (unsigned i = 0; i < s->fake->peer_count; i++)
		if (s->fake->peers[i].conn)
			fake_reset(s->fake, &s->fake->peers[i]);
	settle(s);
	fake_stop(s->fake);
	sessions_free(registry); /* asserts that no session is left */
	free(s);
	return 0;
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
	const char *text;
	int bytes;

	assert_true(count <= ARRAY_SIZE(counted));
	send_state(s, IPERF3_TEST_END);
	expect_state(s, IPERF3_EXCHANGE_RESULTS);
	send_json(s, json, 7);
	assert_true(s->control->out_bytes > s->seen + IPERF3_LENGTH);
	bytes = iperf3_parse_length(s->control->out + s->seen, IPERF3_RESULTS_MAX);
	text = (const char *)s->control->out + s->seen + IPERF3_LENGTH;
	assert_int_equal(iperf3_parse_results(text, (size_t)bytes, counted, count), 0);
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

/* However little is due at a time: here a byte each microsecond, and all at once. */
TEST_WITH(small_blocks_share_views, scene_start, scene_stop, NULL)
{
	static const char *const params[] = {
		"{\"reverse\":true,\"len\":1,\"bandwidth\":8000000}",
		"{\"reverse\":true,\"len\":1,\"bandwidth\":8000000000000}",
		"{\"reverse\":true,\"len\":1,\"burst\":7,\"bandwidth\":8000000000000}",
	};
	struct scene *s = *state;

	for (unsigned i = 0; i < ARRAY_SIZE(params); i++) {
		s->fake->room = 1000;
		run(s, params[i], 1, 37);
		for (unsigned turn = 0; turn < 1000; turn++) {
			conn_ready(s->streams[0]->conn);
			fake_turn(s->fake);
		}
		assert_in_range(s->streams[0]->conn->tx.views, 1, WORKER_TURN_BYTES / CHUNK + 1);
		assert_in_range(s->streams[0]->conn->tx.bytes, 1, WORKER_TURN_BYTES + CHUNK);
		fake_reset(s->fake, s->control);
		settle(s);
	}
}

TEST_WITH(data_before_the_start_ends_the_stream, scene_start, scene_stop, NULL)
{
	struct scene *s = *state;

	set_up(s, "{\"parallel\":2}", 37);
	expect_state(s, IPERF3_CREATE_STREAMS);
	open_stream(s, 37);
	fake_send(s->fake, s->streams[0], "early", 5);
	expect_error(s, IPERF3_STREAM_LOST);
	assert_null(s->streams[0]->conn);
	assert_int_equal(stat_load(s->fake->worker.stats.closed_protocol), 1);
}

static void pass_step(struct scene *s)
{
	struct timer *timer = &s->control->conn->due.timer;

	timer->due(timer, clock_ns() + 11 * (uint64_t)NS_PER_S);
	settle(s);
}

/* Each stream has the time limit, as a far client opens one after the other. */
TEST_WITH(streams_may_come_one_by_one, scene_start, scene_stop, NULL)
{
	struct scene *s = *state;

	set_up(s, "{\"parallel\":4}", 37);
	expect_state(s, IPERF3_CREATE_STREAMS);
	for (unsigned i = 0; i < 3; i++) {
		open_stream(s, 37);
		pass_step(s);
		assert_non_null(s->control->conn);
	}
	pass_step(s);
	assert_null(s->control->conn);
	assert_int_equal(stat_load(s->fake->worker.stats.operations[0].errors), 1);
}

TEST_WITH(states_that_arrive_together_are_all_handled, scene_start, scene_stop, NULL)
{
	static const uint8_t states[] = { IPERF3_TEST_START, IPERF3_TEST_START, IPERF3_TEST_END };
	struct scene *s = *state;

	run(s, "{}", 1, 37);
	fake_send_all(s->fake, s->control, states, sizeof(states), sizeof(states));
	expect_state(s, IPERF3_EXCHANGE_RESULTS);
	fake_reset(s->fake, s->control);
	settle(s);
	/* None of theirs. */
	run(s, "{}", 1, 37);
	send_state(s, 0);
	settle(s);
	assert_null(s->control->conn);
}

/* Nothing comes for longer than a drain waits for idle connections: the client gets no CPU, or its
 * rate is low. */
TEST_WITH(a_drain_lets_a_silent_test_end, scene_start, scene_stop, NULL)
{
	struct scene *s = *state;
	struct worker *w = &s->fake->worker;
	uint64_t bytes;

	run(s, "{}", 1, 37);
	w->drain.deadline_ns = clock_ns() + 60 * (uint64_t)NS_PER_S;
	w->drain.on = true;
	w->drain.timer.due(&w->drain.timer, clock_ns() + 2 * (uint64_t)WORKER_QUIET_NS);
	settle(s);
	assert_non_null(s->control->conn);
	assert_non_null(s->streams[0]->conn);
	fake_send_all(s->fake, s->streams[0], "12345", 5, 5);
	finish(s, "{\"streams\":[{\"id\":1,\"bytes\":5}]}", &bytes, 1);
	assert_int_equal(bytes, 5);
}

/* Streams may be accepted in another order than they were opened. */
TEST_WITH(streams_are_told_apart_by_the_bytes_sent, scene_start, scene_stop, NULL)
{
	static const char data[5000];
	struct scene *s = *state;
	uint64_t bytes[3];

	run(s, "{\"parallel\":3}", 3, 37);
	fake_send_all(s->fake, s->streams[0], data, 123, 123);
	fake_send_all(s->fake, s->streams[1], data, 4000, 4000);
	fake_send_all(s->fake, s->streams[2], data, 17, 17);
	finish(s,
	       "{\"streams\":[{\"id\":1,\"bytes\":17},{\"id\":3,\"bytes\":123},"
	       "{\"id\":4,\"bytes\":4000}]}",
	       bytes, 3);
	assert_int_equal(bytes[0], 17);
	assert_int_equal(bytes[1], 123);
	assert_int_equal(bytes[2], 4000);
}

TEST_WITH(lost_streams_keep_their_count, scene_start, scene_stop, NULL)
{
	struct scene *s = *state;
	uint64_t bytes[2];

	run(s, "{\"parallel\":2}", 2, 37);
	fake_send_all(s->fake, s->streams[0], "abc", 3, 3);
	fake_reset(s->fake, s->streams[0]);
	settle(s);
	finish(s, "{\"streams\":[]}", bytes, 2);
	assert_int_equal(bytes[0], 3);
	/* Before the start a test cannot continue without a data connection. */
	set_up(s, "{\"parallel\":2}", 37);
	expect_state(s, IPERF3_CREATE_STREAMS);
	fake_reset(s->fake, open_stream(s, 37));
	settle(s);
	expect_error(s, IPERF3_STREAM_LOST);
}

/* Also where the stream's worker has missed phases between: no stream ends without a begin. */
TEST(counting_begins_once_for_each_phase_that_counts)
{
	static const bool begins[][IPERF3_DEAD + 1] = {
		[IPERF3_SETUP] = { [IPERF3_OMIT] = true, [IPERF3_RUN] = true, [IPERF3_END] = true },
		[IPERF3_OMIT] = { [IPERF3_RUN] = true },
		[IPERF3_RUN] = { false },
		[IPERF3_END] = { false },
	};

	for (unsigned seen = IPERF3_SETUP; seen <= IPERF3_END; seen++)
		for (unsigned now = seen + 1; now <= IPERF3_DEAD; now++)
			assert_int_equal(iperf3_begins_counting(seen, now), begins[seen][now]);
}
