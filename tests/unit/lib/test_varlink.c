/* Varlink's framing, call objects and parameter tables: all that is pure. */
#include <errno.h>

#include "unit.h"
#include "util.h"
#include "varlink_frame.h"

CLEANUP_OF(json_t *, json_decref)

#define CALL "{\"method\":\"a.b.C\"}"

/* ---- The reader ---- */

/* Feeds the stream in pieces, 1..piece_max bytes each, and expects exactly these messages. */
static void expect_messages(const char *stream, size_t bytes, size_t piece_max,
			    const char *const *messages, size_t count)
{
	CLEANUP(varlink_reader_free) struct varlink_reader r = { 0 };
	const char *text;
	size_t length, seen = 0, fed = 0;

	while (fed < bytes) {
		size_t piece = (size_t)rand() % piece_max + 1;

		piece = MIN(piece, bytes - fed);
		assert_int_equal(varlink_reader_append(&r, stream + fed, piece), 0);
		fed += piece;
		while (varlink_reader_next(&r, &text, &length) == 1) {
			assert_true(seen < count);
			assert_int_equal(length, strlen(messages[seen]));
			assert_memory_equal(text, messages[seen], length);
			seen++;
		}
	}
	assert_int_equal(seen, count);
	assert_false(varlink_reader_pending(&r));
}

static const char stream[] = "one\0two\n\0\0three is longer than the others\0{}";
static const char *const stream_messages[] = {
	"one", "two\n", "", "three is longer than the others", "{}",
};

TEST(any_split_gives_the_same_messages)
{
	for (size_t piece_max = 1; piece_max <= sizeof(stream); piece_max++) {
		for (unsigned i = 0; i < 50; i++)
			expect_messages(stream, sizeof(stream), piece_max, stream_messages,
					ARRAY_SIZE(stream_messages));
	}
}

TEST(a_partial_message_is_pending)
{
	CLEANUP(varlink_reader_free) struct varlink_reader r = { 0 };
	const char *text;
	size_t bytes;

	assert_int_equal(varlink_reader_next(&r, &text, &bytes), 0);
	assert_false(varlink_reader_pending(&r));
	assert_int_equal(varlink_reader_append(&r, "ab", 2), 0);
	assert_int_equal(varlink_reader_next(&r, &text, &bytes), 0);
	assert_true(varlink_reader_pending(&r));
	assert_int_equal(varlink_reader_append(&r, "", 1), 0);
	assert_int_equal(varlink_reader_next(&r, &text, &bytes), 1);
	assert_false(varlink_reader_pending(&r));
}

/* Feeds `bytes` letters in pieces, and a NUL if terminated; returns the last result of
 * varlink_reader_next(). */
static int feed_long(size_t bytes, bool terminated, size_t piece)
{
	struct varlink_reader r = { 0 };
	char *data = malloc(bytes + 1);
	const char *text;
	size_t length, total = bytes + terminated;
	int rc = 0;

	assert_non_null(data);
	memset(data, 'x', bytes);
	data[bytes] = '\0';
	for (size_t fed = 0; fed < total && rc == 0; fed += piece) {
		assert_int_equal(varlink_reader_append(&r, data + fed, MIN(piece, total - fed)), 0);
		rc = varlink_reader_next(&r, &text, &length);
	}
	if (rc == 1)
		assert_int_equal(length, bytes);
	varlink_reader_free(&r);
	free(data);
	return rc;
}

TEST(oversize_is_refused_with_and_without_its_end)
{
	static const size_t pieces[] = { 1000, 65536, 2 * VARLINK_MESSAGE_MAX };

	for (unsigned i = 0; i < ARRAY_SIZE(pieces); i++) {
		assert_int_equal(feed_long(VARLINK_MESSAGE_MAX, true, pieces[i]), 1);
		assert_int_equal(feed_long(VARLINK_MESSAGE_MAX, false, pieces[i]), 0);
		assert_int_equal(feed_long(VARLINK_MESSAGE_MAX + 1, true, pieces[i]), -EMSGSIZE);
		assert_int_equal(feed_long(VARLINK_MESSAGE_MAX + 1, false, pieces[i]), -EMSGSIZE);
	}
}

TEST(many_small_messages_are_not_oversize)
{
	CLEANUP(varlink_reader_free) struct varlink_reader r = { 0 };
	unsigned count = 0;
	const char *text;
	size_t bytes;

	for (unsigned i = 0; i < 2 * VARLINK_MESSAGE_MAX / sizeof(CALL); i++)
		assert_int_equal(varlink_reader_append(&r, CALL, sizeof(CALL)), 0);
	while (varlink_reader_next(&r, &text, &bytes) == 1)
		count++;
	assert_int_equal(count, 2 * VARLINK_MESSAGE_MAX / sizeof(CALL));
	assert_null(r.data); /* a large buffer is not kept */
}

/* ---- Calls ---- */

static int parse(const char *text, struct varlink_request *ret_request)
{
	return varlink_request_parse(text, strlen(text), ret_request);
}

TEST(a_call_is_read_whole)
{
	struct varlink_request q;

	assert_int_equal(parse(" {\"parameters\":{\"x\":1},\"more\":true,\"oneway\":false,"
			       "\"method\":\"a.b.C\"}\n",
			       &q),
			 0);
	assert_string_equal(q.method, "a.b.C");
	assert_int_equal(json_integer_value(json_object_get(q.parameters, "x")), 1);
	assert_true(q.more);
	assert_false(q.oneway);
	varlink_request_free(&q);
	assert_null(q.root);
}

TEST(missing_fields_and_null_are_alike)
{
	static const char *const texts[] = { CALL,
					     "{\"method\":\"a\",\"parameters\":null}",
					     "{\"method\":\"a\",\"more\":null}",
					     "{\"method\":\"a\",\"oneway\":null}",
					     "{\"method\":\"a\",\"upgrade\":null}",
					     "{\"method\":\"a\",\"upgrade\":false}" };
	struct varlink_request q;

	for (unsigned i = 0; i < ARRAY_SIZE(texts); i++) {
		assert_int_equal(parse(texts[i], &q), 0);
		assert_true(json_is_object(q.parameters));
		assert_int_equal(json_object_size(q.parameters), 0);
		assert_false(q.more || q.oneway);
		varlink_request_free(&q);
	}
}

TEST(text_other_than_a_call_is_refused)
{
	static const char *const texts[] = {
		"",
		" ",
		"x",
		"null",
		"1",
		"\"a.b.C\"",
		"[]",
		"[" CALL "]",
		"{}",
		"{",
		CALL CALL,
		CALL "x",
		"{\"method\":\"a.b.C\"",
		"{\"method\":\"a.b.C\",}",
		"{'method':'a.b.C'}",
		"{method:\"a.b.C\"}",
		"{\"method\":1}",
		"{\"method\":null}",
		"{\"parameters\":{}}",
		"{\"method\":\"a.b.C\",\"parameters\":[]}",
		"{\"method\":\"a.b.C\",\"parameters\":1}",
		"{\"method\":\"a.b.C\",\"more\":1}",
		"{\"method\":\"a.b.C\",\"upgrade\":true}",
		"{\"method\":\"a.b.C\",\"unknown\":null}",
		"{\"method\":\"a.b.C\",\"oneway\":\"yes\"}",
		"{\"method\":\"a.b.C\",\"more\":true,\"oneway\":true}",
		"{\"method\":\"a.b.C\",\"method\":\"a.b.C\"}",
		"{\"method\":\"a.b.C\",\"parameters\":{\"x\":1,\"x\":1}}",
		"{\"method\":\"a.b.C\",\"unknown\":1}",
		"{\"method\":\"a.b.C\",\"error\":\"x\"}",
		"{\"method\":\"a.b.\\u0000C\"}",
		"{\"method\":\"a.b.\xff\"}",
		"{\"method\":\"a.b.C\",\"parameters\":{\"x\":99999999999999999999}}",
		"{\"method\":\"a.b.C\",\"parameters\":{\"x\":1e999}}",
		"{\"method\":\"a.b.C\",\"parameters\":{\"x\":NaN}}",
		("\xef\xbb\xbf" CALL),
	};
	struct varlink_request untouched = { .method = "untouched" }, q = untouched;

	for (unsigned i = 0; i < ARRAY_SIZE(texts); i++) {
		if (parse(texts[i], &q) != -EBADMSG)
			fail_msg("accepted: %s", texts[i]);
		assert_memory_equal(&q, &untouched, sizeof(q));
	}
	assert_int_equal(varlink_request_parse(CALL, sizeof(CALL), &q), -EBADMSG); /* a NUL */
}

/* A call whose parameters nest to this depth, the call's own braces included. */
static int parse_nested(unsigned depth, const char *open, const char *close)
{
	char text[8192] = "{\"method\":\"a.b.C\",\"parameters\":{\"x\":";
	struct varlink_request q;
	int rc;

	for (unsigned i = 2; i < depth; i++)
		strcat(text, open);
	strcat(text, "1");
	for (unsigned i = 2; i < depth; i++)
		strcat(text, close);
	strcat(text, "}}");
	rc = parse(text, &q);
	if (rc == 0)
		varlink_request_free(&q);
	return rc;
}

TEST(depth_is_limited)
{
	CLEANUP(varlink_request_free) struct varlink_request q;

	assert_int_equal(parse_nested(VARLINK_DEPTH_MAX, "[", "]"), 0);
	assert_int_equal(parse_nested(VARLINK_DEPTH_MAX + 1, "[", "]"), -EBADMSG);
	assert_int_equal(parse_nested(VARLINK_DEPTH_MAX, "{\"y\":", "}"), 0);
	assert_int_equal(parse_nested(VARLINK_DEPTH_MAX + 1, "{\"y\":", "}"), -EBADMSG);
	/* Brackets in strings do not count. */
	assert_int_equal(
		parse("{\"method\":\"[[[[[[[[[[[[[[[[[[[[[\\\"[[[[[[[[[[[[[[[[[[[[[\"}", &q), 0);
}

/* ---- Parameters ---- */

static const struct varlink_parameter table[] = {
	{ "flag", VARLINK_BOOL, .optional = true },
	{ "count", VARLINK_INT, .optional = true, .min = 1, .max = 10 },
	{ "name", VARLINK_STRING, .optional = false },
	{ "list", VARLINK_STRINGS, .optional = true, .max = 2 },
	{ 0 },
};

static void expect_invalid(const struct varlink_parameter *t, const char *text,
			   const char *parameter)
{
	CLEANUP(json_decref_p) json_t *parameters = json_loads(text, 0, NULL);
	const char *invalid = varlink_check_parameters(t, parameters);

	assert_non_null(parameters);
	if (parameter)
		assert_string_equal(invalid, parameter);
	else
		assert_null(invalid);
}

TEST(parameters_are_checked_against_the_table)
{
	expect_invalid(table, "{\"name\":\"\"}", NULL);
	expect_invalid(table, "{\"name\":\"x\",\"flag\":null,\"count\":null,\"list\":null}", NULL);
	expect_invalid(table, "{\"name\":\"x\",\"flag\":false,\"count\":10,\"list\":[\"\",\"b\"]}",
		       NULL);
	expect_invalid(table, "{}", "name");
	expect_invalid(table, "{\"name\":null}", "name");
	expect_invalid(table, "{\"name\":1}", "name");
	expect_invalid(table, "{\"name\":\"x\",\"flag\":1}", "flag");
	expect_invalid(table, "{\"name\":\"x\",\"count\":0}", "count");
	expect_invalid(table, "{\"name\":\"x\",\"count\":11}", "count");
	expect_invalid(table, "{\"name\":\"x\",\"count\":1.0}", "count");
	expect_invalid(table, "{\"name\":\"x\",\"count\":\"1\"}", "count");
	expect_invalid(table, "{\"name\":\"x\",\"list\":\"a\"}", "list");
	expect_invalid(table, "{\"name\":\"x\",\"list\":[1]}", "list");
	expect_invalid(table, "{\"name\":\"x\",\"list\":[null]}", "list");
	expect_invalid(table, "{\"name\":\"x\",\"list\":[\"a\",\"b\",\"c\"]}", "list");
	expect_invalid(table, "{\"name\":\"x\",\"nam\":\"x\"}", "nam");
	expect_invalid(NULL, "{}", NULL);
	expect_invalid(NULL, "{\"x\":null}", "x");
}
