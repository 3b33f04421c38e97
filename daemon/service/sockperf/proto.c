/* sockperf's header.  Pure; any thread. */
#include "proto.h"

#include <errno.h>

#include "bytes.h"

int sockperf_parse(const uint8_t header[static SOCKPERF_HEADER], uint32_t *ret_length)
{
	unsigned flags = get_be16(header + 8);
	uint32_t length = get_be32(header + 10);

	if (length < SOCKPERF_HEADER || length > SOCKPERF_LENGTH_MAX)
		return -EPROTO;
	*ret_length = length;
	if (!(flags & SOCKPERF_CLIENT) || (flags & SOCKPERF_WARM_UP))
		return SOCKPERF_IGNORE;
	return flags & SOCKPERF_PONG_REQUEST ? SOCKPERF_PONG : SOCKPERF_COUNT;
}

int sockperf_parse_datagram(const uint8_t *data, uint32_t bytes)
{
	uint32_t length = 0;
	int fate = bytes < SOCKPERF_HEADER ? -EPROTO : sockperf_parse(data, &length);

	return fate >= 0 && length != bytes ? -EPROTO : fate;
}
