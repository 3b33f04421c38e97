/* Fuzzes datagrams of iperf 2: each is a byte with its length, and that. */
#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "simple/iperf2_proto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct iperf2_peer p = { 0 };
	uint8_t report[IPERF2_REPORT];

	for (uint64_t now = 1; bytes > 0; now += now) {
		size_t n = data[0] < bytes - 1 ? data[0] : bytes - 1;

		if (iperf2_take(&p, data + 1, (uint32_t)n, now, report)) {
			assert(n > sizeof(report) && p.datagrams >= 2 && p.state == IPERF2_OVER);
			assert(memcmp(report, data + 1, 16) == 0);
			assert(!iperf2_take(&(struct iperf2_peer){ 0 }, report, sizeof(report), now,
					    report));
		}
		assert(p.lost <= p.high);
		data += n + 1;
		bytes -= n + 1;
	}
	return 0;
}
