/* The control message of fio's ioengine `rdma`, from client and server alike.  Pure.
 *
 * be32 mode, be32 number of buffers, be32 bytes of the largest block, 4 bytes unused; then 512
 * times be64 address, be32 key, be32 bytes.  Source: fio's engines/rdma.c. */
#pragma once
#include <stdint.h>

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
int fio_parse(const uint8_t message[static FIO_MESSAGE], struct fio_control *ret_control);

/* Formats the server's reply.  Its buffer i is piece i % spread, of block_bytes each, of the memory
 * at address; spread 0: no buffers. */
void fio_format(uint8_t message[static FIO_MESSAGE], const struct fio_control *control,
		uint64_t address, uint32_t key, uint32_t spread);
