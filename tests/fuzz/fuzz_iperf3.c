/* Fuzzes what an iperf3 client says: cookie, length, parameters, results. */
#include <math.h>

#include "fuzz.h"
#include "iperf/proto.h"

static void check_params(const char *json, size_t bytes)
{
	struct iperf3_params p;
	int error = iperf3_parse_params(json, bytes, &p);
	char text[192];

	assert(error >= 0);
	if (error)
		return;
	assert(p.parallel >= 1 && p.parallel <= IPERF3_PARALLEL_MAX);
	assert(p.sends || p.receives);
	assert(p.time_s <= IPERF3_TIME_MAX_S && p.omit_s <= IPERF3_OMIT_MAX_S);
	assert(p.len >= 1 && p.len <= IPERF3_LEN_MAX);
	assert(p.burst >= 1 && p.burst <= IPERF3_BURST_MAX);
	assert(p.window >= 0 && p.window <= IPERF3_WINDOW_MAX);
	assert(p.mss >= 0 && p.mss <= IPERF3_MSS_MAX && p.tos >= 0 && p.tos <= 255);
	assert(p.limit_bytes <= UINT64_C(1) << 53);
	assert(memchr(p.congestion, 0, sizeof(p.congestion)));
	iperf3_write_options(&p, text, sizeof(text));
	assert(strlen(text) < sizeof(text) - 1); /* nothing is cut off */
}

/* Parsed parameters can be written, and parsed again. */
static void check_results(const char *json, size_t bytes)
{
	enum { COUNT = 6 };
	struct iperf3_stream_result streams[COUNT];
	struct iperf3_results r = { .streams = streams, .count = COUNT };
	struct iperf3_counted counted[COUNT], again[COUNT];
	size_t length;
	char *text;

	if (iperf3_parse_results(json, bytes, counted, COUNT) < 0)
		return;
	for (unsigned i = 0; i < COUNT; i++)
		streams[i] = (struct iperf3_stream_result){ .bytes = counted[i].bytes,
							    .packets = counted[i].packets,
							    .datagrams = i % 2,
							    .seconds = i };
	text = iperf3_build_results(&r, &length);
	assert(text && length > IPERF3_LENGTH);
	assert(iperf3_parse_length((uint8_t *)text, IPERF3_RESULTS_MAX) ==
	       (int)(length - IPERF3_LENGTH));
	assert(iperf3_parse_results(text + IPERF3_LENGTH, length - IPERF3_LENGTH, again, COUNT) ==
	       0);
	for (unsigned i = 0; i < COUNT; i++)
		assert(counted[i].bytes == again[i].bytes &&
		       counted[i].packets == again[i].packets);
	free(text);
}

/* Each 16 bytes are a header. */
static void check_datagrams(const uint8_t *data, size_t bytes)
{
	struct iperf3_arrivals a = { 0 };
	uint8_t answer[IPERF3_HANDSHAKE];

	iperf3_is_handshake(data, bytes, answer);
	for (uint64_t now = 1; bytes >= IPERF3_HEADER; now += now) {
		iperf3_arrived(&a, data, bytes % 2, now);
		assert(a.lost <= a.high && a.jitter_s >= 0);
		data += IPERF3_HEADER;
		bytes -= IPERF3_HEADER;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const char *json = (const char *)data;

	if (bytes >= IPERF3_COOKIE && iperf3_is_cookie(data))
		assert(memchr(data, 0, IPERF3_COOKIE) == data + IPERF3_COOKIE - 1);
	check_datagrams(data, bytes);
	if (bytes >= IPERF3_LENGTH) {
		int length = iperf3_parse_length(data, IPERF3_PARAMS_MAX);

		assert(length < 0 || (length > 0 && length <= IPERF3_PARAMS_MAX));
	}
	check_params(json, bytes);
	check_results(json, bytes);
	return 0;
}
