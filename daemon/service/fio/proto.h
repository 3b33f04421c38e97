/* The control message of fio's ioengine `rdma`, from client and server alike.  Pure.
 *
 * be32 mode, be32 number of buffers, be32 bytes of the largest block, 4 bytes unused; then 512
 * times be64 address, be32 key, be32 bytes.  Source: fio's engines/rdma.c. */
#pragma once
#include <errno.h>

#include "bytes.h"

enum {
	FIO_BUFFERS_MAX = 512,
	FIO_HEAD = 16,
	FIO_BUFFER = 16,
	FIO_MESSAGE = FIO_HEAD + FIO_BUFFERS_MAX * FIO_BUFFER,
};

/* Values of fio's `verb`. */
enum fio_mode { FIO_WRITE = 1, FIO_READ, FIO_SEND };

struct fio_control {
	enum fio_mode mode;
	uint32_t buffers;     /* a client's iodepth: 1 to FIO_BUFFERS_MAX */
	uint32_t block_bytes; /* 1 or more */
};

/* A client's request.  0, or -EPROTO. */
static inline int fio_parse(const uint8_t message[static FIO_MESSAGE],
			    struct fio_control *ret_control)
{
	uint32_t mode = get_be32(message), buffers = get_be32(message + 4);
	uint32_t block_bytes = get_be32(message + 8);

	if (mode < FIO_WRITE || mode > FIO_SEND || buffers == 0 || buffers > FIO_BUFFERS_MAX ||
	    block_bytes == 0)
		return -EPROTO;
	*ret_control = (struct fio_control){ (enum fio_mode)mode, buffers, block_bytes };
	return 0;
}

/* Formats the server's reply.  Its buffer i is piece i % spread, of block_bytes each, of the memory
 * at address; spread 0: no buffers. */
static inline void fio_format(uint8_t message[static FIO_MESSAGE],
			      const struct fio_control *control, uint64_t address, uint32_t key,
			      uint32_t spread)
{
	uint32_t buffers = spread > 0 ? control->buffers : 0;
	uint8_t *to = message + FIO_HEAD;

	memset(message, 0, FIO_MESSAGE);
	put_be32(put_be32(put_be32(message, control->mode), buffers), control->block_bytes);
	for (uint32_t i = 0; i < buffers; i++) {
		to = put_be64(to, address + (uint64_t)(i % spread) * control->block_bytes);
		to = put_be32(put_be32(to, key), control->block_bytes);
	}
}
