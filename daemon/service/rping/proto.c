/* See rping/proto.h. */
#include "proto.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

int rping_parse(const uint8_t message[static RPING_MESSAGE], struct rping_buffer *ret_buffer)
{
	uint64_t address;
	uint32_t key, size;

	memcpy(&address, message, 8);
	memcpy(&key, message + 8, 4);
	memcpy(&size, message + 12, 4);
	size = be32toh(size);
	if (size == 0 || size > RPING_SIZE_MAX)
		return -EPROTO;
	*ret_buffer = (struct rping_buffer){ be64toh(address), be32toh(key), size };
	return 0;
}
