/* Fuzzes fio's control message: what is accepted, and that the reply stays inside of the region. */
#include "fio/proto.h"
#include "fuzz.h"

static uint64_t get(const uint8_t *from, unsigned bytes)
{
	uint64_t n = 0;

	while (bytes-- > 0)
		n = n << 8 | *from++;
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static uint8_t request[FIO_MESSAGE], reply[FIO_MESSAGE];
	struct fio_control control;
	uint64_t base = 0x10000;
	uint32_t spread;

	if (bytes < FIO_HEAD)
		return 0;
	memset(request, 0, sizeof(request));
	memcpy(request, data, bytes < FIO_MESSAGE ? bytes : FIO_MESSAGE);
	if (fio_parse(request, &control) < 0)
		return 0;
	assert(control.mode == get(data, 4) && control.buffers == get(data + 4, 4));
	assert(control.buffers >= 1 && control.buffers <= FIO_BUFFERS_MAX);
	assert(control.block_bytes == get(data + 8, 4) && control.block_bytes > 0);
	spread = data[12] % (control.buffers + 1);
	fio_format(reply, &control, base, 5, spread);
	assert(get(reply + 4, 4) == (spread ? control.buffers : 0));
	for (uint32_t i = 0; i < get(reply + 4, 4); i++) {
		const uint8_t *buffer = reply + FIO_HEAD + (size_t)i * FIO_BUFFER;
		uint64_t at = get(buffer, 8);

		assert(get(buffer + 8, 4) == 5 && get(buffer + 12, 4) == control.block_bytes);
		assert(at >= base &&
		       at + control.block_bytes <= base + (uint64_t)spread * control.block_bytes);
	}
	return 0;
}
