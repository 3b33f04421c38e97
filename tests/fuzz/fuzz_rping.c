/* Fuzzes rping's message, against its description. */
#include "fuzz.h"
#include "rping/proto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	for (; bytes >= RPING_MESSAGE; data += RPING_MESSAGE, bytes -= RPING_MESSAGE) {
		struct rping_buffer buffer = { 0 };
		uint32_t size = (uint32_t)data[12] << 24 | (uint32_t)data[13] << 16 |
				(uint32_t)data[14] << 8 | data[15];

		if (rping_parse(data, &buffer) < 0) {
			assert(buffer.size == 0);
			assert(size == 0 || size > RPING_SIZE_MAX);
			continue;
		}
		assert(buffer.size == size);
		assert((buffer.address & 0xff) == data[7] && buffer.address >> 56 == data[0]);
		assert((buffer.key & 0xff) == data[11] && buffer.key >> 24 == data[8]);
	}
	return 0;
}
