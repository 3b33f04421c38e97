/* Fuzzes bench/result/limit.c: any text is a limit with a value above 0 of a figure that there is,
 * or an error in words. */
#include <math.h>

#include "fuzz.h"
#include "limit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char *text = fuzz_text(data, bytes), error[LIMIT_ERROR_BYTES] = "";
	struct limit l;

	if (limit_parse(text, &l, error)) {
		assert(isfinite(l.value) && l.value > 0 && l.figure < FIGURE_COUNT);
		assert(strchr(text, l.below ? '<' : '>'));
	} else {
		assert(*error && strlen(error) < sizeof(error));
	}
	free(text);
	return 0;
}
