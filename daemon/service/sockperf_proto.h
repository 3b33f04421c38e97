/* sockperf's messages on a stream: a header, then payload up to the length that it names.  Pure.
 *
 * Source: sockperf's own src/message.h; what a server does with a message: src/server.h. */
#pragma once
#include <stdint.h>

enum {
	SOCKPERF_HEADER = 14,   /* be64 sequence, be16 flags, be32 length with the header */
	SOCKPERF_FLAGS_LOW = 9, /* offset of the byte that holds every flag in use */
	SOCKPERF_LENGTH_MAX = 1024 * 1024, /* the limit of `sockperf --tcp -m` */
};

enum sockperf_flags {
	SOCKPERF_CLIENT = 1 << 0,
	SOCKPERF_PONG_REQUEST = 1 << 1,
	SOCKPERF_WARM_UP = 1 << 2,
};

enum sockperf_fate {
	SOCKPERF_IGNORE, /* not from a client, or its warm-up */
	SOCKPERF_COUNT,
	SOCKPERF_PONG, /* goes back with the client flag cleared */
};

/* The fate of the message and its length with the header, or -EPROTO: no message has that length.
 */
int sockperf_parse(const uint8_t header[static SOCKPERF_HEADER], uint32_t *ret_length);

/* Of a datagram, which is one message: its fate, or -EPROTO: it is none, or says another length. */
int sockperf_parse_datagram(const uint8_t *data, uint32_t bytes);
