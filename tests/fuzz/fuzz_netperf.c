/* Fuzzes what a netperf client asks for. */
#include <errno.h>

#include "fuzz.h"
#include "netperf/proto.h"

static void check_request(const struct netperf_request *r)
{
	assert(r->kind <= NETPERF_CRR);
	assert(r->request_bytes <= NETPERF_SIZE_MAX && r->response_bytes <= NETPERF_SIZE_MAX);
	assert(r->kind < NETPERF_RR || (r->request_bytes > 0 && r->response_bytes > 0));
	assert(!r->datagrams || r->kind == NETPERF_STREAM || r->kind == NETPERF_RR);
	assert(!r->datagrams || r->response_bytes <= NETPERF_DATAGRAM_MAX);
	assert(r->send_buffer >= 0 && r->send_buffer <= NETPERF_SIZE_MAX);
	assert(r->receive_buffer >= 0 && r->receive_buffer <= NETPERF_SIZE_MAX);
	assert((r->time_s > 0) != (r->limit > 0) && r->time_s <= NETPERF_TIME_MAX_S);
	assert(memchr(r->congestion, 0, sizeof(r->congestion)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct netperf_request request;
	struct netperf_response response = { 1, 2, 3 };
	uint8_t message[NETPERF_MESSAGE] = { 0, 0, 0, 97 };
	int rc;

	/* Whole, or the body of one that is asked for. */
	if (bytes >= NETPERF_MESSAGE)
		memcpy(message, data, sizeof(message));
	else
		memcpy(message + 8, data,
		       bytes < NETPERF_MESSAGE - 8 ? bytes : NETPERF_MESSAGE - 8);
	rc = netperf_parse(message, &request);
	assert(rc == 0 || rc == -EPROTO || rc == -EOPNOTSUPP || rc == -EINVAL ||
	       rc == -EPROTONOSUPPORT || rc == -EMSGSIZE);
	assert((rc == -EPROTO) == !netperf_is_message(message, NETPERF_HEAD));
	for (size_t n = 0; n < NETPERF_HEAD && rc != -EPROTO; n++)
		assert(netperf_is_message(message, n));
	if (rc < 0)
		return 0;
	check_request(&request);
	netperf_format_response(message, &request, &response);
	assert(netperf_is_message(message, NETPERF_HEAD) && message[3] == 98);
	return 0;
}
