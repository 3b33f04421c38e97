/* sockperf's header.  Pure; any thread. */
#include "proto.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

int sockperf_parse(const uint8_t header[static SOCKPERF_HEADER], uint32_t *ret_length)
{
	uint16_t flags;
	uint32_t length;

	memcpy(&flags, header + 8, sizeof(flags));
	memcpy(&length, header + 10, sizeof(length));
	flags = be16toh(flags);
	length = be32toh(length);
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
