/* The private data of RDMA's connection manager: client and service exchange it before there is a
 * connection. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	GREETING_SAID_MAX =
		56, /* as long as InfiniBand's are, always: zeros follow what was said */
	GREETING_REPLY_MAX = 32,
};

struct greeting {
	/* The client's.  NULL: it is refused for another reason, as limits or a lack of memory, and
	 * is to hear so. */
	const uint8_t *said;
	size_t said_bytes;
	unsigned reads; /* of its memory that may be under way at a time */
	bool iwarp;     /* it comes by iWARP */

	/* The service's. */
	unsigned receives;    /* messages that the client may send before it hears anything; 0: the
				 engine decides */
	uint32_t message_max; /* bytes of the longest of them; 0: a chunk */
	uint8_t reply_bytes;
	uint8_t reply[GREETING_REPLY_MAX];
};
