/* rping's messages: 16 bytes with the address, key and size of a client's memory.  Pure.
 *
 * Source: rdma-core's librdmacm/examples/rping.c. */
#pragma once
#include <stdint.h>

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
int rping_parse(const uint8_t message[static RPING_MESSAGE], struct rping_buffer *ret_buffer);
