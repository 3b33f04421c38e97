/* sockperf's messages on a stream: a header, then payload up to the length that it names.  Pure.
 *
 * Source: sockperf's src/message.h; a server's handling of messages: src/server.h. */
#pragma once
#include <errno.h>

#include "bytes.h"

enum {
	SOCKPERF_HEADER = 14,   /* be64 sequence, be16 flags, be32 length with the header */
	SOCKPERF_FLAGS_LOW = 9, /* offset of the byte that has all flags in use */
	SOCKPERF_LENGTH_MAX = 1024 * 1024, /* the limit of `sockperf --tcp -m` */
};

enum sockperf_flags {
	SOCKPERF_CLIENT = 1 << 0,
	SOCKPERF_PONG_REQUEST = 1 << 1,
	SOCKPERF_WARM_UP = 1 << 2,
};

enum sockperf_fate {
	SOCKPERF_IGNORE, /* no message of a client, or one of its warm-up */
	SOCKPERF_COUNT,
	SOCKPERF_PONG, /* to be returned with the client flag cleared */
};

/* The fate of the message (enum sockperf_fate), and its length with the
 * header; -EPROTO: invalid length. */
static inline int sockperf_parse(const uint8_t header[static SOCKPERF_HEADER], uint32_t *ret_length)
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

/* The fate of a datagram, which is one message; -EPROTO: invalid, or its length field is wrong. */
static inline int sockperf_parse_datagram(const uint8_t *data, uint32_t bytes)
{
	uint32_t length = 0;
	int fate = bytes < SOCKPERF_HEADER ? -EPROTO : sockperf_parse(data, &length);

	return fate >= 0 && length != bytes ? -EPROTO : fate;
}
