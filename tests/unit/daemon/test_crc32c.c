/* CRC-32C: the values of RFC 3720 B.4, and the same sum for every way to cut the bytes. */
#include "crc32c.h"
#include "unit.h"

TEST(the_values_of_rfc_3720)
{
	uint8_t data[32];

	assert_int_equal(crc32c(0, "", 0), 0);
	assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
	memset(data, 0, sizeof(data));
	assert_int_equal(crc32c(0, data, sizeof(data)), 0x8a9136aa);
	memset(data, 0xff, sizeof(data));
	assert_int_equal(crc32c(0, data, sizeof(data)), 0x62a8ab43);
	for (unsigned i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)i;
	assert_int_equal(crc32c(0, data, sizeof(data)), 0x46dd794e);
	for (unsigned i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(31 - i);
	assert_int_equal(crc32c(0, data, sizeof(data)), 0x113fdb5c);
}

/* A bit at a time, as the polynomial says. */
static uint32_t by_bits(const uint8_t *data, size_t bytes)
{
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < bytes; i++) {
		crc ^= data[i];
		for (unsigned bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	return ~crc;
}

TEST(every_length_and_alignment_and_cut)
{
	uint8_t data[600];

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 131 + i / 7);
	for (size_t at = 0; at < 16; at++)
		for (size_t bytes = 0; at + bytes <= sizeof(data); bytes += 1 + bytes / 40) {
			uint32_t whole = by_bits(data + at, bytes);
			size_t half = bytes / 3;

			assert_int_equal(crc32c(0, data + at, bytes), whole);
			assert_int_equal(
				crc32c(crc32c(0, data + at, half), data + at + half, bytes - half),
				whole);
		}
}
