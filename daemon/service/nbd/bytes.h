/* Numbers as NBD sends them: big-endian, at any address. */
#pragma once
#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t get16(const uint8_t *from)
{
	uint16_t value;

	memcpy(&value, from, sizeof(value));
	return be16toh(value);
}

static inline uint32_t get32(const uint8_t *from)
{
	uint32_t value;

	memcpy(&value, from, sizeof(value));
	return be32toh(value);
}

static inline uint64_t get64(const uint8_t *from)
{
	uint64_t value;

	memcpy(&value, from, sizeof(value));
	return be64toh(value);
}

/* The put functions return where the next field goes. */
static inline uint8_t *put16(uint8_t *to, uint16_t value)
{
	value = htobe16(value);
	memcpy(to, &value, sizeof(value));
	return to + sizeof(value);
}

static inline uint8_t *put32(uint8_t *to, uint32_t value)
{
	value = htobe32(value);
	memcpy(to, &value, sizeof(value));
	return to + sizeof(value);
}

static inline uint8_t *put64(uint8_t *to, uint64_t value)
{
	value = htobe64(value);
	memcpy(to, &value, sizeof(value));
	return to + sizeof(value);
}

static inline uint8_t *put_text(uint8_t *to, const char *text, size_t bytes)
{
	memcpy(to, text, bytes);
	return to + bytes;
}
