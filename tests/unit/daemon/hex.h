/* Messages as hexadecimal digits. */
#pragma once
#include "unit.h"

struct bytes {
	uint8_t data[1024];
	size_t count;
};

static inline struct bytes bytes_of(const char *hex)
{
	struct bytes b = { .count = strlen(hex) / 2 };

	assert_true(b.count <= sizeof(b.data));
	for (size_t i = 0; i < b.count; i++) {
		char digits[3] = { hex[2 * i], hex[2 * i + 1] };

		b.data[i] = (uint8_t)strtoul(digits, NULL, 16);
	}
	return b;
}

static inline void assert_bytes(const uint8_t *data, size_t count, const char *hex)
{
	struct bytes b = bytes_of(hex);

	assert_int_equal(count, b.count);
	assert_memory_equal(data, b.data, b.count);
}
