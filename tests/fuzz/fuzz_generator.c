/* Fuzzes bench/generator/generator.c: whatever a load generator prints, its numbers are finite and
 * its percentiles rise.  The first byte chooses the generator. */
#include <math.h>

#include "fuzz.h"
#include "generator.h"
#include "util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static char *const programs[] = { "redis-benchmark", "fio", "iperf3",   "wrk",
					  "h2load",          "ab",  "sockperf", "qemu-img",
					  "netperf" };
	struct generator_result r;
	char *argv[] = { NULL, "-n", "1000", NULL }, *text;

	if (bytes == 0)
		return 0;
	argv[0] = programs[data[0] % ARRAY_SIZE(programs)];
	text = malloc(bytes);
	assert(text);
	memcpy(text, data + 1, bytes - 1);
	text[bytes - 1] = '\0';
	if (generator_parse(argv, text, &r)) {
		assert(isfinite(r.requests) && isfinite(r.requests_per_s) &&
		       isfinite(r.bytes_per_s));
		assert(r.requests >= 0 && r.requests_per_s >= 0 && r.bytes >= 0 &&
		       r.bytes_per_s >= 0 && r.errors >= 0);
		for (unsigned i = 1; i < r.quantile_count; i++)
			assert(r.quantiles[i].quantile > r.quantiles[i - 1].quantile);
	}
	free(text);
	return 0;
}
