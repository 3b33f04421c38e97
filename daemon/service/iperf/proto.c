/* iperf3's control protocol.  See iperf/proto.h. */
#include "proto.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bytes.h"
#include "util.h"

/* iperf3 handles numbers as doubles, which are exact up to this. */
#define COUNT_MAX (UINT64_C(1) << 53)

bool iperf3_is_cookie(const uint8_t cookie[static IPERF3_COOKIE])
{
	for (unsigned i = 0; i < IPERF3_COOKIE - 1; i++)
		if (cookie[i] <= ' ' || cookie[i] > '~')
			return false;
	return cookie[IPERF3_COOKIE - 1] == 0;
}

int iperf3_parse_length(const uint8_t length[static IPERF3_LENGTH], int max)
{
	uint32_t n = get_be32(length);

	return n > 0 && n <= (uint32_t)max ? (int)n : -EPROTO;
}

/* ---- Parameters ---- */

/* Reads an integer from 0 to max; if absent *value is unchanged.  false: anything else. */
static bool take_number(const json_t *object, const char *key, uint64_t max, uint64_t *value)
{
	const json_t *found = json_object_get(object, key);
	double number;

	if (!found)
		return true;
	number = json_is_number(found) ? json_number_value(found) : -1;
	if (!(number >= 0 && number <= (double)max))
		return false;
	*value = (uint64_t)number;
	return true;
}

/* Is a flag set?  Flags are booleans, or numbers, or absent. */
static bool has_flag(const json_t *object, const char *key)
{
	const json_t *found = json_object_get(object, key);

	return found && !json_is_false(found) && !json_is_null(found) &&
	       !(json_is_number(found) && json_number_value(found) == 0);
}

static bool take_congestion(const json_t *object, struct iperf3_params *params)
{
	const char *name = json_string_value(json_object_get(object, "congestion"));
	size_t bytes;

	if (!json_object_get(object, "congestion"))
		return true;
	bytes = name ? strlen(name) : 0;
	if (bytes == 0 || bytes >= sizeof(params->congestion))
		return false;
	memcpy(params->congestion, name, bytes + 1);
	return true;
}

/* A numeric parameter: its key, its limit, and the error if that is exceeded. */
struct limit {
	const char *key;
	uint64_t max;
	int error;
	uint64_t *value;
};

static int take_params(const json_t *object, struct iperf3_params *p)
{
	uint64_t parallel = 1, seconds = 0, omit = 0, bytes = 0, blocks = 0, len = 0, burst = 0;
	uint64_t window = 0, mss = 0, tos = 0;
	const struct limit limits[] = {
		{ "parallel", IPERF3_PARALLEL_MAX, IPERF3_BAD_PARALLEL, &parallel },
		{ "time", IPERF3_TIME_MAX_S, IPERF3_BAD_DURATION, &seconds },
		{ "omit", IPERF3_OMIT_MAX_S, IPERF3_BAD_OMIT, &omit },
		{ "num", UINT64_MAX / 2, IPERF3_BAD_PARAMS, &bytes },
		{ "blockcount", UINT64_MAX / 2, IPERF3_BAD_PARAMS, &blocks },
		{ "len", IPERF3_LEN_MAX, IPERF3_BAD_LEN, &len },
		{ "burst", IPERF3_BURST_MAX, IPERF3_BAD_BURST, &burst },
		{ "bandwidth", UINT64_MAX / 2, IPERF3_BAD_PARAMS, &p->rate },
		{ "fqrate", UINT64_MAX / 2, IPERF3_BAD_PARAMS, &p->fq_rate },
		{ "window", IPERF3_WINDOW_MAX, IPERF3_BAD_WINDOW, &window },
		{ "MSS", IPERF3_MSS_MAX, IPERF3_BAD_MSS, &mss },
		{ "TOS", 255, IPERF3_BAD_TOS, &tos },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(limits); i++)
		if (!take_number(object, limits[i].key, limits[i].max, limits[i].value))
			return limits[i].error;
	if (parallel == 0)
		return IPERF3_BAD_PARALLEL;
	p->parallel = (unsigned)parallel;
	p->time_s = (unsigned)seconds;
	p->omit_s = (unsigned)omit;
	p->len = len ? (uint32_t)len : p->datagrams ? IPERF3_DATAGRAM : IPERF3_LEN;
	if (p->datagrams && (p->len < IPERF3_DATAGRAM_MIN || p->len > IPERF3_DATAGRAM_MAX))
		return IPERF3_BAD_DATAGRAM;
	p->burst = burst ? (uint32_t)burst : 1;
	p->window = (int)window;
	p->mss = (int)mss;
	p->tos = (int)tos;
	p->limit_bytes = MIN(bytes, COUNT_MAX);
	if (blocks)
		p->limit_bytes = MIN(blocks, COUNT_MAX / p->len) * p->len;
	return 0;
}

int iperf3_parse_params(const char *json, size_t bytes, struct iperf3_params *ret_params)
{
	json_t *object = json_loadb(json, bytes, JSON_DECODE_INT_AS_REAL, NULL);
	struct iperf3_params p = { 0 };
	bool reverse = has_flag(object, "reverse"), both = has_flag(object, "bidirectional");
	int error = 0;

	p.datagrams = has_flag(object, "udp");
	p.wide = has_flag(object, "udp_counters_64bit");
	if (!json_is_object(object))
		error = IPERF3_BAD_PARAMS;
	else if (has_flag(object, "sctp"))
		error = IPERF3_NO_SCTP;
	else if (has_flag(object, "mptcp")) /* what would be measured is plain TCP */
		error = IPERF3_NO_PROTOCOL;
	else if (has_flag(object, "authtoken"))
		error = IPERF3_NO_AUTHORIZATION;
	else if (reverse && both)
		error = IPERF3_REVERSE_BIDIR;
	else if (!take_congestion(object, &p))
		error = IPERF3_CONGESTION_FAILED;
	else
		error = take_params(object, &p);
	p.sends = reverse || both;
	p.receives = !reverse;
	p.skip_copy = has_flag(object, "skip_rx_copy");
	json_decref(object);
	if (error == 0)
		*ret_params = p;
	return error;
}

void iperf3_write_options(const struct iperf3_params *p, char *text, size_t size)
{
	const struct {
		const char *option;
		uint64_t value; /* 0: not given */
	} numbers[] = {
		{ "-P", p->parallel > 1 ? p->parallel : 0 },
		{ "-n", p->limit_bytes },
		{ "-t", p->limit_bytes ? 0 : p->time_s },
		{ "-O", p->omit_s },
		{ "-l", p->len },
		{ "-b", p->rate },
		{ "--fq-rate", p->fq_rate },
		{ "-w", (unsigned)p->window },
		{ "-M", (unsigned)p->mss },
		{ "-S", (unsigned)p->tos },
	};
	size_t at = (size_t)snprintf(text, size, "%s%s", p->datagrams ? "-u " : "",
				     !p->sends      ? ""
				     : !p->receives ? "-R "
						    : "--bidir ");

	for (unsigned i = 0; i < ARRAY_SIZE(numbers); i++)
		if (numbers[i].value && at < size)
			at += (size_t)snprintf(text + at, size - at, "%s %" PRIu64 " ",
					       numbers[i].option, numbers[i].value);
	if (p->congestion[0] && at < size)
		at += (size_t)snprintf(text + at, size - at, "-C %s ", p->congestion);
	if (at > 0 && at < size)
		text[at - 1] = '\0'; /* the last space */
}

/* ---- Results ---- */

unsigned iperf3_stream_id(unsigned index)
{
	return index == 0 ? 1 : index + 2;
}

static int take_stream(const json_t *stream, struct iperf3_counted *ret, unsigned count)
{
	struct iperf3_counted counted = { 0 };
	uint64_t id = 0;

	if (!json_object_get(stream, "id") || !take_number(stream, "id", UINT32_MAX, &id) ||
	    !json_object_get(stream, "bytes") ||
	    !take_number(stream, "bytes", COUNT_MAX, &counted.bytes) ||
	    !take_number(stream, "packets", COUNT_MAX, &counted.packets))
		return -EPROTO;
	for (unsigned i = 0; i < count; i++)
		if (iperf3_stream_id(i) == id)
			ret[i] = counted;
	return 0;
}

int iperf3_parse_results(const char *json, size_t bytes, struct iperf3_counted *ret, unsigned count)
{
	json_t *object = json_loadb(json, bytes, JSON_DECODE_INT_AS_REAL, NULL), *stream;
	json_t *streams = json_object_get(object, "streams");
	int rc = json_is_array(streams) ? 0 : -EPROTO;
	size_t i;

	memset(ret, 0, count * sizeof(*ret));
	json_array_foreach(streams, i, stream)
		rc = rc < 0 ? rc : take_stream(stream, ret, count);
	json_decref(object);
	return rc;
}

static json_t *build_stream(const struct iperf3_stream_result *s, unsigned index)
{
	json_int_t retransmits = s->sends && !s->datagrams ? (json_int_t)s->retransmits : -1;

	return json_pack("{s:i, s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:f, s:f}", "id",
			 (int)iperf3_stream_id(index), "bytes", (json_int_t)s->bytes, "retransmits",
			 retransmits, "jitter", s->jitter_s, "errors", (json_int_t)s->lost,
			 "omitted_errors", (json_int_t)s->omitted_lost, "packets",
			 (json_int_t)s->packets, "omitted_packets", (json_int_t)s->omitted_packets,
			 "start_time", 0.0, "end_time", s->seconds);
}

static json_t *build_object(const struct iperf3_results *r)
{
	json_t *streams = json_array(), *object;
	bool sends = false, datagrams = r->count > 0 && r->streams[0].datagrams;

	for (unsigned i = 0; i < r->count; i++) {
		json_array_append_new(streams, build_stream(&r->streams[i], i));
		sends |= r->streams[i].sends;
	}
	object = json_pack("{s:f, s:f, s:f, s:i, s:o}", "cpu_util_total",
			   r->cpu_user + r->cpu_system, "cpu_util_user", r->cpu_user,
			   "cpu_util_system", r->cpu_system, "sender_has_retransmits",
			   sends ? !datagrams : -1, "streams", streams);
	if (r->congestion)
		json_object_set_new(object, "congestion_used", json_string(r->congestion));
	return object;
}

char *iperf3_build_results(const struct iperf3_results *results, size_t *ret_bytes)
{
	json_t *object = build_object(results);
	size_t bytes = json_dumpb(object, NULL, 0, JSON_COMPACT);
	char *text = bytes ? malloc(IPERF3_LENGTH + bytes) : NULL;

	if (text) {
		put_be32((uint8_t *)text, (uint32_t)bytes);
		json_dumpb(object, text + IPERF3_LENGTH, bytes, JSON_COMPACT);
		*ret_bytes = IPERF3_LENGTH + bytes;
	}
	json_decref(object);
	return text;
}

/* ---- Datagrams ---- */

bool iperf3_is_handshake(const uint8_t *datagram, size_t bytes,
			 uint8_t ret_answer[static IPERF3_HANDSHAKE])
{
	/* Versions 3.12 and later, and earlier ones; each also as big-endian hosts send it. */
	static const uint8_t known[][2][IPERF3_HANDSHAKE] = {
		{ { 0x39, 0x38, 0x37, 0x36 }, { 0x36, 0x37, 0x38, 0x39 } },
		{ { 0x36, 0x37, 0x38, 0x39 }, { 0x39, 0x38, 0x37, 0x36 } },
		{ { 0x15, 0xcd, 0x5b, 0x07 }, { 0xb1, 0x68, 0xde, 0x3a } },
		{ { 0x07, 0x5b, 0xcd, 0x15 }, { 0x3a, 0xde, 0x68, 0xb1 } },
	};

	for (unsigned i = 0; bytes == IPERF3_HANDSHAKE && i < ARRAY_SIZE(known); i++)
		if (memcmp(datagram, known[i][0], bytes) == 0) {
			memcpy(ret_answer, known[i][1], bytes);
			return true;
		}
	return false;
}

void iperf3_build_header(uint8_t *to, bool wide, uint64_t sent_ns, uint64_t number)
{
	to = put_be32(to, (uint32_t)(sent_ns / NS_PER_S));
	to = put_be32(to, (uint32_t)(sent_ns % NS_PER_S / NS_PER_US));
	if (wide)
		put_be64(to, number);
	else
		put_be32(to, (uint32_t)number);
}

void iperf3_arrived(struct iperf3_arrivals *a, const uint8_t *header, bool wide, uint64_t now_ns)
{
	double sent_s = get_be32(header) + get_be32(header + 4) * 1e-6;
	double transit = (double)now_ns * 1e-9 - sent_s;
	double d = a->begun ? fabs(transit - a->transit_s) : 0;
	uint64_t number;

	if (wide)
		number = MIN(get_be64(header + 8), COUNT_MAX);
	else
		number = a->high + (uint64_t)(int32_t)(get_be32(header + 8) - (uint32_t)a->high);
	if (number > COUNT_MAX)
		number = 0; /* older than the first datagram */
	if (number > a->high) {
		a->lost += number - a->high - 1;
		a->high = number;
	} else {
		a->lost -= a->lost > 0;
	}
	a->jitter_s += (d - a->jitter_s) / 16;
	a->transit_s = transit;
	a->begun = true;
}

void iperf3_build_error(int error, uint8_t to[static IPERF3_ERROR])
{
	memset(to, 0, IPERF3_ERROR);
	to[0] = IPERF3_SERVER_ERROR;
	put_be32(to + 1, (uint32_t)error);
}
