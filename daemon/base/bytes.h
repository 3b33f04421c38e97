/* Numbers of wire formats, at any address: get_be32() and put_be32(), get_le32() and put_le32(),
 * and so on.  The put functions return where the next field goes. */
#pragma once
#include <endian.h>
#include <stdint.h>
#include <string.h>

/* clang-format off */
#define BYTES(order, bits)                                                           \
	static inline uint##bits##_t get_##order##bits(const uint8_t *from)          \
	{                                                                            \
		uint##bits##_t value;                                                \
		memcpy(&value, from, sizeof(value));                                 \
		return order##bits##toh(value);                                      \
	}                                                                            \
	static inline uint8_t *put_##order##bits(uint8_t *to, uint##bits##_t value)  \
	{                                                                            \
		value = hto##order##bits(value);                                     \
		memcpy(to, &value, sizeof(value));                                   \
		return to + sizeof(value);                                           \
	}
BYTES(be, 16)
BYTES(be, 32)
BYTES(be, 64)
BYTES(le, 16)
BYTES(le, 32)
BYTES(le, 64)
#undef BYTES
/* clang-format on */

static inline uint8_t *put_text(uint8_t *to, const char *text, size_t bytes)
{
	memcpy(to, text, bytes);
	return to + bytes;
}
