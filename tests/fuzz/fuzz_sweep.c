/* Fuzzes bench/run/sweep.c: two sweeps of any text, a line each, and the text behind them filled
 * with their values. */
#include "fuzz.h"
#include "sweep.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char *text = fuzz_text(data, bytes), *rest = text, *line;
	struct sweeps s = { 0 };
	struct reason reason = { "" };
	int rc = 0;

	for (unsigned i = 0; i < 2 && rc == 0 && rest; i++) {
		line = strsep(&rest, "\n");
		rc = sweeps_add(&s, line, &reason);
	}
	if (rc == 0 && rest) {
		unsigned last = sweeps_combinations(&s) - 1;
		char *filled = sweeps_fill(&s, last, rest, false);

		for (unsigned i = 0; i < s.count; i++)
			assert(*sweeps_value(&s, i, last));
		free(filled);
		free(sweeps_fill(&s, 0, rest, true));
	}
	assert(rc == 0 || *reason.text);
	sweeps_fini(&s);
	free(text);
	return 0;
}
