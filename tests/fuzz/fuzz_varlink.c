/* Fuzzes what a Varlink client can send: the reader, fed in pieces that the input chooses, the call
 * objects and the parameter tables. */
#include "fuzz.h"
#include "util.h"
#include "varlink_frame.h"

static const struct varlink_parameter table[] = {
	{ "flag", VARLINK_BOOL, .optional = true },
	{ "count", VARLINK_INT, .optional = true, .min = 1, .max = 10 },
	{ "name", VARLINK_STRING, .optional = true },
	{ "list", VARLINK_STRINGS, .optional = true, .max = 2 },
	{ 0 },
};

static void handle(const char *text, size_t bytes)
{
	struct varlink_request request;

	assert(!memchr(text, '\0', bytes));
	if (varlink_request_parse(text, bytes, &request) < 0)
		return;
	assert(request.method && json_is_object(request.parameters));
	assert(!(request.more && request.oneway));
	varlink_check_parameters(table, request.parameters);
	varlink_request_free(&request);
}

/* The first byte says how long the pieces are. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct varlink_reader r = { 0 };
	size_t piece, length, messages = 0, expected = 0;
	const char *text;
	int rc = 0;

	if (bytes == 0)
		return 0;
	piece = (size_t)data[0] + 1;
	for (size_t at = 1; at < bytes && rc == 0; at += piece) {
		size_t fed = MIN(piece, bytes - at);

		assert(varlink_reader_append(&r, data + at, fed) == 0);
		for (size_t i = at; i < at + fed; i++)
			expected += data[i] == '\0';
		while ((rc = varlink_reader_next(&r, &text, &length)) == 1) {
			handle(text, length);
			messages++;
		}
	}
	assert(rc < 0 || messages == expected);
	varlink_reader_free(&r);
	return 0;
}
