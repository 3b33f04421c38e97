/* Fuzzes sockperf's header, against its description. */
#include "fuzz.h"
#include "sockperf/proto.h"

/* No byte beyond those that came, whatever it says of its length. */
static void check_datagram(const uint8_t *data, size_t bytes)
{
	uint32_t length = 0;
	int fate = sockperf_parse_datagram(data, (uint32_t)bytes);

	assert(fate < 0 || (sockperf_parse(data, &length) == fate && length == bytes));
}

/* A stream of messages; each passes or ends it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	check_datagram(data, bytes);
	while (bytes >= SOCKPERF_HEADER) {
		uint32_t length = 0;
		int fate = sockperf_parse(data, &length);

		if (fate < 0) {
			assert(length == 0);
			return 0;
		}
		assert(length >= SOCKPERF_HEADER && length <= SOCKPERF_LENGTH_MAX);
		assert((fate == SOCKPERF_IGNORE) == ((data[9] & 1) == 0 || (data[9] & 4) != 0));
		if (fate != SOCKPERF_IGNORE)
			assert((fate == SOCKPERF_PONG) == ((data[9] & 2) != 0));
		if (length > bytes)
			return 0;
		data += length;
		bytes -= length;
	}
	return 0;
}
