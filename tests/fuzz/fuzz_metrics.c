/* Fuzzes `nbctl metrics`' reader of requests: once it has said what a request is, more bytes do not
 * change that, and only a head that is too long or complete is anything but METRICS_MORE. */
#include "fuzz.h"
#include "metrics_http.h"
#include "util.h"

/* As it is called: from the beginning each time, in memory that ends where the bytes end. */
static enum metrics_request parse(const uint8_t *data, size_t bytes)
{
	char *copy = malloc(bytes + !bytes);
	enum metrics_request request;

	assert(copy);
	if (bytes)
		memcpy(copy, data, bytes);
	request = metrics_parse(copy, bytes);
	free(copy);
	return request;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	enum metrics_request whole = parse(data, bytes);
	size_t at = 0;

	assert(whole <= METRICS_BAD);
	if (bytes > METRICS_REQUEST_MAX) {
		assert(whole == METRICS_BAD);
		return 0;
	}
	while (at < bytes && parse(data, at) == METRICS_MORE)
		at++;
	assert(parse(data, at) == whole || (at < bytes && whole != METRICS_MORE));
	for (size_t more = at; more < MIN(bytes, at + 64); more++)
		assert(parse(data, more) == parse(data, at));
	if (whole == METRICS_GET || whole == METRICS_HEAD)
		assert(memmem(data, bytes, "/metrics", 8));
	return 0;
}
