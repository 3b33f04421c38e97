/* netperf's messages.  See netperf/proto.h. */
#include "proto.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "bytes.h"

/* Types of messages. */
enum {
	NETPERF_OMNI = 97,
	NETPERF_OMNI_RESPONSE = 98,
	NETPERF_TYPE_MAX = 1000, /* larger than all types */
	NETPERF_CPUS_MAX = 8192, /* the most for which Linux can be built */
};

/* Indices of a request's numbers, after type and error. */
enum {
	ASKED_SEND_BUFFER = 0,
	ASKED_SEND_BYTES = 1,
	ASKED_REQUEST = 5,
	ASKED_RECEIVE_BUFFER = 6,
	ASKED_RESPONSE = 11,
	ASKED_FLAGS = 12,
	ASKED_LENGTH = 14, /* s; negative: bytes or transactions */
	ASKED_PORT = 20,
	ASKED_SOCKET = 22,
	ASKED_PROTOCOL = 23,
	ASKED_DIRECTION = 24,
	ASKED_CLASS = 37,      /* of traffic; more than a byte has: unchanged */
	ASKED_CONGESTION = 38, /* 16 bytes */
};

enum {
	FLAG_CONNECT = 0x4,
	FLAG_CPU = 0x8,
	SOCKET_STREAM = 1,
	SOCKET_DATAGRAM = 2,
	PROTOCOL_TCP = 6,
	PROTOCOL_UDP = 17,
	DIRECTION_SEND = 2, /* from the server's point of view */
	DIRECTION_RECEIVE = 4,
};

/* The method of measuring CPU time that netperf displays. */
enum { METHOD_RUSAGE = 5 };

static uint32_t get(const uint8_t *message, unsigned place)
{
	return get_be32(message + 8 + (size_t)4 * place);
}

static void put(uint8_t *message, unsigned place, uint32_t value)
{
	put_be32(message + 8 + (size_t)4 * place, value);
}

static void put_long(uint8_t *message, unsigned place, uint64_t value)
{
	put_be64(message + 8 + (size_t)4 * place, value);
}

static void put_float(uint8_t *message, unsigned place, double value)
{
	float narrow = (float)value;
	uint32_t bits;

	memcpy(&bits, &narrow, sizeof(bits));
	put(message, place, bits);
}

static void head(uint8_t *message, uint32_t type, int error)
{
	memset(message, 0, NETPERF_MESSAGE);
	put_be32(put_be32(message, type), (uint32_t)error);
}

/* In a request, the number in the place of the error is the CPU on which netperf's own server would
 * run (-T); UINT32_MAX: any.  Of an incomplete head the missing bytes are taken as valid. */
bool netperf_is_message(const uint8_t *head, size_t bytes)
{
	uint8_t whole[NETPERF_HEAD] = { 0, 0, 0, NETPERF_OMNI };
	uint32_t type, cpu;

	if (bytes > 4 && head[4] == UINT8_MAX)
		memset(whole + 4, UINT8_MAX, sizeof(cpu));
	memcpy(whole, head, bytes < sizeof(whole) ? bytes : sizeof(whole));
	type = get_be32(whole);
	cpu = get_be32(whole + 4);
	return type > 0 && type < NETPERF_TYPE_MAX && (cpu < NETPERF_CPUS_MAX || cpu == UINT32_MAX);
}

/* Decodes a size; the client sends -1 or 0 for the default (0). -1: too large. */
static int64_t size_of(uint32_t value)
{
	int32_t size = (int32_t)value;

	if (size <= 0)
		return 0;
	return size <= NETPERF_SIZE_MAX ? size : -1;
}

static int parse_sizes(const uint8_t *m, struct netperf_request *r)
{
	int64_t send = size_of(get(m, ASKED_SEND_BYTES)), request = size_of(get(m, ASKED_REQUEST)),
		response = size_of(get(m, ASKED_RESPONSE)),
		send_buffer = size_of(get(m, ASKED_SEND_BUFFER)),
		receive_buffer = size_of(get(m, ASKED_RECEIVE_BUFFER));

	if (send < 0 || request < 0 || response < 0 || send_buffer < 0 || receive_buffer < 0)
		return -EINVAL;
	r->send_bytes = (uint32_t)send;
	r->request_bytes = (uint32_t)request;
	r->response_bytes = (uint32_t)response;
	r->send_buffer = (int)send_buffer;
	r->receive_buffer = (int)receive_buffer;
	if (r->kind >= NETPERF_RR && (!request || !response))
		return -EINVAL;
	if (r->datagrams && (request > NETPERF_DATAGRAM_MAX || response > NETPERF_DATAGRAM_MAX))
		return -EMSGSIZE;
	return 0;
}

/* UDP has no NETPERF_MAERTS: the server does not send to an address that has sent nothing. */
static int parse_kind(const uint8_t *m, struct netperf_request *r)
{
	uint32_t direction = get(m, ASKED_DIRECTION), socket = get(m, ASKED_SOCKET);
	uint32_t protocol = get(m, ASKED_PROTOCOL);
	bool connects = get(m, ASKED_FLAGS) & FLAG_CONNECT;

	r->datagrams = socket == SOCKET_DATAGRAM && protocol == PROTOCOL_UDP;
	if (!r->datagrams && (socket != SOCKET_STREAM || protocol != PROTOCOL_TCP))
		return -EPROTONOSUPPORT;
	if (direction == (DIRECTION_SEND | DIRECTION_RECEIVE))
		r->kind = connects ? NETPERF_CRR : NETPERF_RR;
	else if (direction == DIRECTION_SEND && !connects)
		r->kind = NETPERF_MAERTS;
	else if (direction == DIRECTION_RECEIVE && !connects)
		r->kind = NETPERF_STREAM;
	else
		return -EOPNOTSUPP;
	return r->datagrams && r->kind != NETPERF_STREAM && r->kind != NETPERF_RR ? -EOPNOTSUPP : 0;
}

int netperf_parse(const uint8_t message[static NETPERF_MESSAGE], struct netperf_request *ret)
{
	int32_t length = (int32_t)get(message, ASKED_LENGTH);
	struct netperf_request r = { 0 };
	int rc;

	if (!netperf_is_message(message, NETPERF_HEAD))
		return -EPROTO;
	if (get_be32(message) != NETPERF_OMNI)
		return -EOPNOTSUPP;
	rc = parse_kind(message, &r);
	if (rc == 0)
		rc = parse_sizes(message, &r);
	if (rc < 0)
		return rc;
	if (length == 0 || length > NETPERF_TIME_MAX_S || get(message, ASKED_PORT) > UINT16_MAX)
		return -EINVAL;
	r.time_s = length > 0 ? (uint32_t)length : 0;
	r.limit = length < 0 ? (uint64_t) - (int64_t)length : 0;
	r.wants_cpu = get(message, ASKED_FLAGS) & FLAG_CPU;
	r.port = (uint16_t)get(message, ASKED_PORT);
	r.traffic_class =
		get(message, ASKED_CLASS) <= UINT8_MAX ? (int)get(message, ASKED_CLASS) : -1;
	memcpy(r.congestion, message + 8 + 4 * ASKED_CONGESTION, NETPERF_CONGESTION_MAX - 1);
	*ret = r;
	return 0;
}

void netperf_write_options(const struct netperf_request *r, char *text, size_t size)
{
	static const char *const kinds[] = { [NETPERF_STREAM] = "STREAM",
					     [NETPERF_MAERTS] = "MAERTS",
					     [NETPERF_RR] = "RR",
					     [NETPERF_CRR] = "CRR" };
	char pairs[32] = "", buffers[32] = "", congestion[NETPERF_CONGESTION_MAX + 8] = "";

	if (r->kind == NETPERF_RR || r->kind == NETPERF_CRR)
		snprintf(pairs, sizeof(pairs), " -r %" PRIu32 ",%" PRIu32, r->request_bytes,
			 r->response_bytes);
	if (r->send_buffer || r->receive_buffer)
		snprintf(buffers, sizeof(buffers), " -S %d,%d", r->send_buffer, r->receive_buffer);
	if (r->congestion[0])
		snprintf(congestion, sizeof(congestion), " -K %s", r->congestion);
	snprintf(text, size, "-t %s_%s -l %s%" PRIu64 "%s%s%s%s", r->datagrams ? "UDP" : "TCP",
		 kinds[r->kind], r->limit ? "-" : "", r->limit ? r->limit : r->time_s,
		 pairs[0] || buffers[0] || congestion[0] ? " --" : "", pairs, buffers, congestion);
}

void netperf_format_error(uint8_t message[static NETPERF_MESSAGE], int error)
{
	head(message, NETPERF_OMNI_RESPONSE, error);
}

void netperf_format_response(uint8_t message[static NETPERF_MESSAGE],
			     const struct netperf_request *request,
			     const struct netperf_response *response)
{
	uint32_t send = request->send_bytes ? request->send_bytes : (uint32_t)response->send_buffer;

	head(message, NETPERF_OMNI_RESPONSE, 0);
	put(message, 0, (uint32_t)response->receive_buffer);
	put(message, 1, (uint32_t)response->receive_buffer); /* maximum bytes of a receive */
	put(message, 2, 1);                                  /* buffers to receive into */
	put(message, 3, (uint32_t)response->send_buffer);
	put(message, 4, send);
	put(message, 5, 1); /* buffers to send from */
	put(message, 6, request->wants_cpu ? FLAG_CPU : 0);
	put_float(message, 7, request->wants_cpu ? 100 : 0);
	put(message, 8, request->time_s);
	put(message, 11, response->port);
	put(message, 16, UINT32_MAX); /* priority: not known */
	put(message, 17, (uint32_t)request->traffic_class);
}

void netperf_format_result(uint8_t message[static NETPERF_MESSAGE],
			   const struct netperf_result *result)
{
	enum { CONGESTION = 276 };

	head(message, NETPERF_OMNI_RESPONSE, 0);
	put_long(message, 0, result->bytes_in);
	put(message, 2, result->receives);
	put(message, 3, (uint32_t)result->receive_buffer);
	put_long(message, 4, result->bytes_out);
	put(message, 6, result->sends);
	put(message, 7, (uint32_t)result->send_buffer);
	put(message, 9, (uint32_t)result->transactions);
	put_float(message, 10, result->elapsed_s);
	put_float(message, 11, result->cpu_percent);
	put_float(message, 17, -1); /* the client works out what a unit costs */
	put(message, 18, METHOD_RUSAGE);
	put(message, 19, result->cpus);
	put(message, 20, UINT32_MAX); /* the busiest CPU: not known */
	put(message, 26, result->retransmits);
	memcpy(message + CONGESTION, result->congestion, NETPERF_CONGESTION_MAX - 1);
}
