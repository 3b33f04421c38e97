/* CRC-32C by ISA-L, which uses the CPU's instructions; in builds without it,
 * by tables.  See crc32c.h. */
#include "crc32c.h"

#ifdef NB_ISAL
#include <isa-l/crc.h>

#include "util.h"

enum { PIECE = 1 << 30 }; /* ISA-L's lengths are int */

uint32_t crc32c(uint32_t crc, const void *data, size_t bytes)
{
	const uint8_t *at = data;

	crc = ~crc;
	for (size_t n; bytes > 0; at += n, bytes -= n) {
		n = MIN(bytes, (size_t)PIECE);
		/* ISA-L takes no const pointer, but only reads. */
		crc = crc32_iscsi((unsigned char *)at, (int)n, crc);
	}
	return ~crc;
}

#else

#include <endian.h>
#include <string.h>

/* table[n][b]: the checksum of byte b followed by n zero bytes. */
static uint32_t table[8][256];

__attribute__((constructor)) static void table_fill(void)
{
	for (uint32_t b = 0; b < 256; b++) {
		table[0][b] = b;
		for (unsigned bit = 0; bit < 8; bit++)
			table[0][b] = table[0][b] >> 1 ^ (table[0][b] & 1 ? 0x82f63b78 : 0);
	}
	for (unsigned n = 1; n < 8; n++)
		for (unsigned b = 0; b < 256; b++)
			table[n][b] = table[n - 1][b] >> 8 ^ table[0][table[n - 1][b] & 0xff];
}

uint32_t crc32c(uint32_t crc, const void *data, size_t bytes)
{
	const uint8_t *at = data;

	crc = ~crc;
	/* Eight bytes at a time, by eight tables ("slicing by 8") */
	for (; bytes >= 8; at += 8, bytes -= 8) {
		uint64_t v;

		memcpy(&v, at, sizeof(v));
		v = le64toh(v) ^ crc;
		crc = 0;
		for (unsigned n = 0; n < 8; n++, v >>= 8)
			crc ^= table[7 - n][v & 0xff];
	}
	for (; bytes > 0; at++, bytes--)
		crc = crc >> 8 ^ table[0][(crc ^ *at) & 0xff];
	return ~crc;
}

#endif
