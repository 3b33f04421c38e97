/* service/http*.c: replies, framing, refusals and bounds; any split gives the same bytes. */
#include "http/proto.h"
#include "pressure.h"
#include "registry.h"
#include "service_case.h"

enum { CHUNKS = 256, CHUNK = 4096 };

#define ROOT_REPLY(option)                                                                         \
	"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n" option              \
	"\r\nnbserved\n"
#define KEEP    "Connection: keep-alive\r\n"
#define CLOSE   "Connection: close\r\n"
#define BINARY  "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
#define H       "Host: x\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n"
#define POST    "POST /echo HTTP/1.1\r\n" H

static struct service_case *http_new(void)
{
	return case_new(registry_service("http"), CHUNKS, CHUNK);
}

static void assert_sent(const struct service_case *t, const char *expected, const char *why)
{
	if (t->out_bytes != strlen(expected) || memcmp(t->out, expected, t->out_bytes) != 0)
		fail_msg("%s:\n%.*s\n-- instead of --\n%s", why, (int)t->out_bytes,
			 (const char *)t->out, expected);
}

/* All requests over one connection give the same reply, wherever they are split. */
static void assert_reply(const char *request, size_t bytes, const char *expected)
{
	for (unsigned split = 0; split < 40; split++) {
		CLEANUP(case_free_p) struct service_case *t = http_new();

		if (split < 10)
			case_input(t, request, bytes, split ? split : CHUNK);
		else
			case_input_random(t, request, bytes, split);
		assert_sent(t, expected, request);
	}
}

#define assert_replies(request, expected) assert_reply(request, sizeof(request) - 1, expected)

/* The request is refused with this status, and the connection ends as a protocol error. */
static void assert_refused(const char *request, size_t bytes, const char *status)
{
	for (size_t piece = 1; piece <= bytes; piece += MAX(bytes - 1, (size_t)1)) {
		CLEANUP(case_free_p) struct service_case *t = http_new();
		char expected[64];

		snprintf(expected, sizeof(expected), "HTTP/1.1 %s", status);
		case_input(t, request, bytes, piece);
		case_input(t, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27, CHUNK);
		assert_non_null(t->conn);
		if (t->out_bytes < strlen(expected) ||
		    memcmp(t->out, expected, strlen(expected)) != 0)
			fail_msg("%s: %.*s", request, (int)t->out_bytes, (const char *)t->out);
		t->out[t->out_bytes - 1] = '\0';
		assert_has((char *)t->out, "\r\nConnection: close\r\n");
		assert_has_not((char *)t->out + 1, "HTTP/1.1");
		assert_int_equal(t->closed, 0); /* the peer may still send */
		case_eof(t);
		assert_null(t->conn);
		assert_int_equal(t->ends[CONN_END_PROTOCOL], 1);
	}
}

struct text {
	const char *data;
	size_t bytes;
};

#define T(text)                                                                                    \
	{                                                                                          \
		text, sizeof(text) - 1                                                             \
	}

/* Each of the requests. */
#define assert_refused_all(status, ...)                                                            \
	do {                                                                                       \
		static const struct text texts_[] = { __VA_ARGS__ };                               \
		for (size_t i_ = 0; i_ < ARRAY_SIZE(texts_); i_++)                                 \
			assert_refused(texts_[i_].data, texts_[i_].bytes, status);                 \
	} while (0)

TEST(get_and_head)
{
	assert_replies("GET / HTTP/1.1\r\n" H "\r\n", ROOT_REPLY(""));
	assert_replies("\r\nGET /?a=b HTTP/1.1\r\nA: b\r\nHost:\r\n\r\n", ROOT_REPLY(""));
	assert_replies("GET /bytes/0 HTTP/1.1\r\n" H "\r\n", BINARY "Content-Length: 0\r\n\r\n");
	assert_replies("HEAD /bytes/1T HTTP/1.1\r\n" H "\r\n",
		       BINARY "Content-Length: 1099511627776\r\n\r\n");
	assert_replies("HEAD /bytes/5G HTTP/1.1\r\n" H "\r\nHEAD / HTTP/1.1\r\n" H "\r\n",
		       BINARY "Content-Length: 5368709120\r\n\r\n"
			      "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
			      "Content-Length: 9\r\n\r\n");
	/* The body of a GET is dropped. */
	assert_replies("GET / HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabc"
		       "GET /bytes/1 HTTP/1.1\r\n" H CHUNKED "\r\n2\r\nab\r\n0\r\n\r\n"
		       "GET / HTTP/1.1\r\n" H "\r\n",
		       ROOT_REPLY("") BINARY "Content-Length: 1\r\n\r\n0" ROOT_REPLY(""));
}

TEST(expect_continue)
{
	struct service_case *t = http_new();
	static const char head[] = POST "Content-Length: 2\r\nExpect: 100-Continue\r\n\r\n";

	case_input(t, head, sizeof(head) - 1, CHUNK);
	assert_sent(t, "HTTP/1.1 100 Continue\r\n\r\n", "asks for the body");
	case_input(t, "ab", 2, 1);
	assert_sent(t, "HTTP/1.1 100 Continue\r\n\r\n" BINARY "Content-Length: 2\r\n\r\nab",
		    "body");
	case_free(t);
	/* A client that sends its body at once needs no 100 Continue. */
	t = http_new();
	case_input(t, POST "Content-Length: 1\r\nExpect: 100-continue\r\n\r\nx",
		   sizeof(POST "Content-Length: 1\r\nExpect: 100-continue\r\n\r\nx") - 1, CHUNK);
	assert_sent(t, BINARY "Content-Length: 1\r\n\r\nx", "no wait");
	case_free(t);
}

TEST(refusals_that_keep_the_connection)
{
#define REFUSAL(status, reason, length, fields)                                                    \
	"HTTP/1.1 " status " " reason "\r\nContent-Type: text/plain\r\nContent-Length: " length    \
	"\r\n" fields "\r\n"
	static const char *const paths[] = { "/x",           "/bytes/",
					     "/bytes/x",     "/bytes/2T",
					     "/bytes/-1",    "/bytes/1K1",
					     "/bytes/1025G", "/bytes/K",
					     "//",           "/bytes/99999999999999999999999",
					     "/echo/" };

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		char request[200];

		snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\n" H "\r\n", paths[i]);
		assert_reply(request, strlen(request),
			     REFUSAL("404", "Not Found", "10", "") "Not Found\n");
	}
}

/* Besides those of tests/system/daemon/test_http_verdicts.py. */
TEST(invalid_requests_are_refused_and_end_the_connection)
{
	assert_refused_all("400", T("GET / HTTP/1.1\rHost"), T("GET / HTTP/1.1\r\nA\0: x\r\n\r\n"),
			   T("GET http://x/ HTTP/1.1\r\n" H "\r\n"),
			   T("GET ? HTTP/1.1\r\n" H "\r\n"), T("OPTIONS * HTTP/1.1\r\n" H "\r\n"),
			   T("\x16\x03\x01\x02"), T("GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n"),
			   T(POST "Content-Length: 000000000000000000000000000000000003\r\n\r\n"),
			   T(POST "Transfer-Encoding: \"chunked\"\r\n\r\n"),
			   T(POST "Transfer-Encoding: ,\r\n\r\n"), T(POST CHUNKED "\r\n5 x\r\n"),
			   T(POST CHUNKED "\r\n5;a\r\n"),
			   T(POST CHUNKED "\r\n00000000000000005\r\n"));
	assert_refused_all("413", T(POST "Content-Length: 1099511627777\r\n\r\n"));
	assert_refused_all("501", T(POST "Transfer-Encoding: gzip\r\n" CHUNKED "\r\n"));
}

/* Chunks of a byte do not take a piece of memory each. */
TEST(an_echo_of_single_bytes_is_bounded)
{
	CLEANUP(case_free_p) struct service_case *t = http_new();
	static const char head[] = POST CHUNKED "\r\n", chunk[] = "1\r\nx\r\n";
	char chunks[CHUNK / 6 * 6];
	static const char answer[] = BINARY CHUNKED "\r\n1\r\nx\r\n1\r\nx";

	for (unsigned i = 0; i < sizeof(chunks); i++)
		chunks[i] = chunk[i % 6];
	t->room = 0;
	case_input(t, head, sizeof(head) - 1, CHUNK);
	for (unsigned i = 0; i < 30; i++)
		case_input(t, chunks, sizeof(chunks), CHUNK);
	assert_true(t->conn->tx.bytes > 100000);
	assert_in_range(t->conn->tx.views, 1, 100);
	case_take(t, SIZE_MAX);
	assert_memory_equal(t->out, answer, sizeof(answer) - 1);
}

/* The reply has begun, so only the end of the connection can show the error. */
TEST(a_bad_chunk_after_the_reply_began_ends_it)
{
	static const char *const bad[] = { "2\r\nabc", "2\r\nab\n", "2\r\nab\r\r\n", "2\r\nab\r\nz",
					   "2\r\nab\r\n1;" };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		CLEANUP(case_free_p) struct service_case *t = http_new();

		case_input(t, POST CHUNKED "\r\n", sizeof(POST CHUNKED "\r\n") - 1, CHUNK);
		case_input(t, bad[i], strlen(bad[i]), 1);
		assert_sent(t, BINARY CHUNKED "\r\n2\r\nab", bad[i]);
		case_eof(t);
		assert_int_equal(t->ends[CONN_END_PROTOCOL], 1);
	}
}

TEST(limits_are_met_exactly)
{
	static char text[20000];
	size_t n;

	/* Bytes of a head. */
	for (int over = 0; over <= 1; over++) {
		n = (size_t)snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n" H "A: ");
		memset(text + n, 'a', sizeof(text) - n);
		n = HTTP_HEAD_MAX - 4 + (size_t)over;
		memcpy(text + n, "\r\n\r\n", 5);
		if (over)
			assert_refused(text, n + 4, "431");
		else
			assert_reply(text, n + 4, ROOT_REPLY(""));
	}
	/* Fields. */
	for (int over = 0; over <= 1; over++) {
		n = (size_t)snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n" H);
		for (int i = 1; i < HTTP_FIELDS_MAX + over; i++)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "A: b\r\n");
		n += (size_t)snprintf(text + n, sizeof(text) - n, "\r\n");
		if (over)
			assert_refused(text, n, "431");
		else
			assert_reply(text, n, ROOT_REPLY(""));
	}
	/* A target. */
	for (int over = 0; over <= 1; over++) {
		n = (size_t)snprintf(text, sizeof(text), "GET /?");
		memset(text + n, 'a', HTTP_TARGET_MAX);
		n = 4 + HTTP_TARGET_MAX + (size_t)over;
		n += (size_t)snprintf(text + n, sizeof(text) - n, " HTTP/1.1\r\n" H "\r\n");
		if (over)
			assert_refused(text, n, "414");
		else
			assert_reply(text, n, ROOT_REPLY(""));
	}
	/* Trailers. */
	n = (size_t)snprintf(text, sizeof(text), POST CHUNKED "\r\n0\r\nA: ");
	memset(text + n, 'a', HTTP_HEAD_MAX);
	assert_refused(text, n + HTTP_HEAD_MAX, "431");
}

TEST(a_pattern_is_sent_as_the_peer_takes_it)
{
	static const char request[] = "GET /bytes/3M HTTP/1.1\r\n" H "\r\n";
	static const char head[] = BINARY "Content-Length: 3145728\r\n\r\n";
	size_t bytes = 3 * 1024 * 1024 + sizeof(head) - 1;
	CLEANUP(case_free_p) struct service_case *t = http_new();

	t->room = 0;
	case_input(t, request, sizeof(request) - 1, CHUNK);
	case_input(t, request, sizeof(request) - 1, 1); /* pipelined */
	while (t->out_bytes < 2 * bytes) {
		assert_true(t->conn->tx.bytes <= 256 * 1024 + CHUNK);
		assert_true(t->conn->tx.bytes > 0);
		case_take(t, 100000);
	}
	assert_int_equal(t->out_bytes, 2 * bytes);
	for (size_t i = 0; i < 2; i++) {
		const uint8_t *reply = t->out + i * bytes;

		assert_memory_equal(reply, head, sizeof(head) - 1);
		reply += sizeof(head) - 1;
		for (size_t at = 0; at < 3 * 1024 * 1024; at++)
			assert_int_equal(reply[at], at % 64 == 63 ? '\n' : '0' + at % 64);
	}
	assert_int_equal(t->conn->rx.bytes, 0);
	assert_int_equal(stat_load(t->worker.stats.operations[1].count), 2);
}

TEST(pipelined_replies_are_bounded)
{
	static const char request[] = "GET / HTTP/1.1\r\n" H "\r\n";
	static const char reply[] = ROOT_REPLY("");
	CLEANUP(case_free_p) struct service_case *t = http_new();
	size_t count = 0, before = (size_t)-1;

	t->room = 0;
	for (; count < 20000 && !t->recv_off; count++)
		case_input(t, request, sizeof(request) - 1, CHUNK);
	assert_true(t->recv_off); /* backpressure */
	assert_true(t->conn->tx.bytes < 256 * 1024 + sizeof(reply));
	while (t->out_bytes != before) {
		before = t->out_bytes;
		case_take(t, 5000);
	}
	assert_int_equal(t->out_bytes, count * (sizeof(reply) - 1));
	for (size_t i = 0; i < count; i++)
		assert_memory_equal(t->out + i * (sizeof(reply) - 1), reply, sizeof(reply) - 1);
}

TEST(an_empty_pool_is_waited_for)
{
	static const char request[] = "GET /bytes/9 HTTP/1.1\r\n" H "\r\n" POST CHUNKED
				      "\r\n3\r\nabc\r\n0\r\n\r\nGET / HTTP/1.0\r\n\r\n";
	static const char expected[] = BINARY "Content-Length: 9\r\n\r\n012345678" BINARY CHUNKED
					      "\r\n3\r\nabc\r\n0\r\n\r\n" ROOT_REPLY(CLOSE);
	struct chunk *taken[CHUNKS];

	/* The pool is exhausted until `turn`, and has one chunk from then on, if any. */
	for (unsigned given = 0; given < 6; given++) {
		CLEANUP(case_free_p) struct service_case *t = http_new();
		struct worker *w = &t->worker;
		unsigned count = 0;

		while (w->pool.free_count > 1 + given / 2)
			taken[count++] = chunk_get(&w->pool);
		case_input(t, request, sizeof(request) - 1, CHUNK);
		while (t->conn && w->pressure.waiting) {
			pressure_end_wait(t->conn);
			if (count > 0)
				chunk_put(&w->pool, taken[--count]);
			conn_ready(t->conn);
			case_turns(t);
		}
		assert_sent(t, expected, "starved");
		assert_null(t->conn);
		while (count > 0)
			chunk_put(&w->pool, taken[--count]);
	}
}

TEST(a_slow_head_is_timed_out_and_a_slow_body_is_not)
{
	CLEANUP(case_free_p) struct service_case *t = http_new();

	assert_int_equal(t->conn->due.ns, 0); /* idle-timeout's business */
	case_input(t, "GET / HTTP/1.1\r\nHo", 18, 1);
	assert_true(t->conn->due.ns > clock_ns());
	case_input(t, "st: x\r\n\r\n", 9, 1);
	assert_int_equal(t->conn->due.ns, 0);
	case_input(t, POST "Content-Length: 5\r\n\r\nab",
		   sizeof(POST "Content-Length: 5\r\n\r\nab") - 1, 1);
	assert_int_equal(t->conn->due.ns, 0);
	case_input(t, "cdeG", 4, 1);
	assert_true(t->conn->due.ns > clock_ns());
	t->out_bytes = 0;
	case_pass(t, 11 * (uint64_t)NS_PER_S);
	assert_null(t->conn);
	assert_int_equal(t->ends[CONN_END_IDLE], 1);
	assert_sent(t,
		    "HTTP/1.1 408 Request Timeout\r\nContent-Type: text/plain\r\n"
		    "Content-Length: 16\r\nConnection: close\r\n\r\nRequest Timeout\n",
		    "408");
}

TEST(an_error_lingers_until_the_peer_has_ended_or_for_a_while)
{
	CLEANUP(case_free_p) struct service_case *t = http_new();

	case_input(t, "\n", 1, 1);
	for (int i = 0; i < 1000; i++)
		case_input(t, "more and more", 13, CHUNK);
	assert_int_equal(t->conn->rx.bytes, 0);
	assert_true(t->conn->due.ns > 0);
	case_pass(t, 11 * (uint64_t)NS_PER_S);
	assert_null(t->conn);
	assert_int_equal(t->ends[CONN_END_PROTOCOL], 1);
}

TEST(operations_are_told_apart)
{
	static const char requests[] =
		"GET / HTTP/1.1\r\n" H "\r\nGET /bytes/1K HTTP/1.1\r\n" H "\r\n"
		"HEAD / HTTP/1.1\r\n" H "\r\nHEAD /bytes/1 HTTP/1.1\r\n" H "\r\n" POST
		"Content-Length: 1\r\n\r\nx" POST CHUNKED "\r\n1\r\nx\r\n0\r\n\r\n"
		"POST /discard HTTP/1.1\r\n" H "\r\nGET /x HTTP/1.1\r\n" H "\r\n";
	static const uint64_t counts[] = { 1, 1, 2, 2, 1, 1 };
	CLEANUP(case_free_p) struct service_case *t = http_new();

	case_input(t, requests, sizeof(requests) - 1, 7);
	for (unsigned i = 0; i < ARRAY_SIZE(counts); i++)
		assert_int_equal(stat_load(t->worker.stats.operations[i].count), counts[i]);
	assert_int_equal(stat_load(t->worker.stats.operations[5].errors), 1);
}
