/* rping's messages: 16 bytes with the address, key and size of a client's memory.  Pure.
 *
 * Source: rdma-core's librdmacm/examples/rping.c. */
#pragma once
#include <errno.h>

#include "bytes.h"

enum {
	RPING_MESSAGE = 16,     /* be64 address, be32 key, be32 size */
	RPING_SIZE_MAX = 65535, /* `rping -S` allows no more */
};

struct rping_buffer {
	uint64_t address;
	uint32_t key;
	uint32_t size; /* 1 to RPING_SIZE_MAX */
};

/* 0, or -EPROTO: invalid size. */
static inline int rping_parse(const uint8_t message[static RPING_MESSAGE],
			      struct rping_buffer *ret_buffer)
{
	uint32_t size = get_be32(message + 12);

	if (size == 0 || size > RPING_SIZE_MAX)
		return -EPROTO;
	*ret_buffer = (struct rping_buffer){ get_be64(message), get_be32(message + 8), size };
	return 0;
}
