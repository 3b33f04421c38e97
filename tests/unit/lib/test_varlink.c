/* lib/base/varlink_frame.c: what no call of the daemon's interface shows. */
#include <errno.h>

#include "unit.h"
#include "util.h"
#include "varlink_frame.h"

#define CALL "{\"method\":\"a.b.C\"}"

/* ---- The reader ---- */

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

/* Besides that of tests/system/daemon/test_control.py. */
TEST(text_other_than_a_call_is_refused)
{
	static const char *const texts[] = {
		"{\"method\":\"a.b.C\",\"parameters\":1}",
		"{\"method\":\"a.b.C\",\"more\":1}",
		"{\"method\":\"a.b.C\",\"upgrade\":true}",
		"{\"method\":\"a.b.C\",\"unknown\":null}",
		"{\"method\":\"a.b.C\",\"oneway\":\"yes\"}",
		"{\"method\":\"a.b.C\",\"error\":\"x\"}",
		"{\"method\":null}",
		"{\"parameters\":{}}",
		"{\"method\":\"a.b.\\u0000C\"}",
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
