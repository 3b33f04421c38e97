/* Fuzzes what a perftest client says on its control connection. */
#include <errno.h>

#include "fuzz.h"
#include "perftest/proto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	uint8_t message[PERFTEST_MESSAGE_MAX] = { 0 };
	struct perftest_queue q;
	int kind;

	if (bytes > sizeof(message))
		return 0;
	if (bytes)
		memcpy(message, data, bytes);
	kind = perftest_parse(message, (uint32_t)bytes);
	assert(kind == -EPROTO || (kind >= PERFTEST_HELLO && kind <= PERFTEST_REPORT));
	assert(kind != PERFTEST_HELLO || bytes == PERFTEST_VERSION);
	assert(perftest_parse(perftest_version, PERFTEST_VERSION) == PERFTEST_HELLO);
	if (kind != PERFTEST_QUEUE)
		return 0;
	q = perftest_get_queue(message);
	perftest_set_memory(message, ~q.address, ~q.key);
	assert(perftest_get_queue(message).number == q.number);
	assert(perftest_get_queue(message).address == ~q.address);
	assert(perftest_get_queue(message).key == (uint32_t)~q.key);
	return 0;
}
