/* See fio/proto.h. */
#include "proto.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

static uint32_t get32(const uint8_t *from)
{
	uint32_t n;

	memcpy(&n, from, sizeof(n));
	return be32toh(n);
}

static void put32(uint8_t *to, uint32_t n)
{
	n = htobe32(n);
	memcpy(to, &n, sizeof(n));
}

int fio_parse(const uint8_t message[static FIO_MESSAGE], struct fio_control *ret_control)
{
	uint32_t mode = get32(message), buffers = get32(message + 4);
	uint32_t block_bytes = get32(message + 8);

	if (mode < FIO_WRITE || mode > FIO_SEND || buffers == 0 || buffers > FIO_BUFFERS_MAX ||
	    block_bytes == 0)
		return -EPROTO;
	*ret_control = (struct fio_control){ (enum fio_mode)mode, buffers, block_bytes };
	return 0;
}

void fio_format(uint8_t message[static FIO_MESSAGE], const struct fio_control *control,
		uint64_t address, uint32_t key, uint32_t spread)
{
	uint32_t buffers = spread > 0 ? control->buffers : 0;

	memset(message, 0, FIO_MESSAGE);
	put32(message, control->mode);
	put32(message + 4, buffers);
	put32(message + 8, control->block_bytes);
	for (uint32_t i = 0; i < buffers; i++) {
		uint8_t *to = message + FIO_HEAD + (size_t)i * FIO_BUFFER;
		uint64_t at = htobe64(address + (uint64_t)(i % spread) * control->block_bytes);

		memcpy(to, &at, sizeof(at));
		put32(to + 8, key);
		put32(to + 12, control->block_bytes);
	}
}
