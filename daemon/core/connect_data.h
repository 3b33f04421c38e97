/* The private data of RDMA's connection manager, exchanged before there is a connection. */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum {
	CONNECT_DATA_MAX = 56, /* bytes; InfiniBand always pads to this with zeros */
	CONNECT_REPLY_MAX = 32,
};

struct connect_data {
	/* The client's data.  NULL: the connection is refused already, for a reason that is not the
	 * service's (limits, no memory), and the service only writes its reply. */
	const uint8_t *data;
	size_t data_bytes;
	unsigned reads; /* RDMA reads of its own memory that the client allows in flight */

	/* Filled in by the service. */
	/* Messages that the client may send before it receives an answer; 0: the engine decides. */
	unsigned receives;
	uint32_t message_max; /* bytes of the longest such message; 0: a chunk */
	uint8_t reply_bytes;
	uint8_t reply[CONNECT_REPLY_MAX];
};
