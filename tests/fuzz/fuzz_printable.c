/* Fuzzes the filter of text for terminals: what it lets through is printable UTF-8, filtering that
 * again changes nothing, and it never reads past the end. */
#include "fuzz.h"
#include "printable.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char *text = fuzz_text(data, bytes), *again;

	printable_clean(text);
	assert(strlen(text) <= bytes);
	for (const char *at = text; *at;) {
		bool printable;

		at += printable_next(at, &printable);
		assert(printable);
	}
	again = strdup(text);
	assert(again);
	printable_clean(again);
	assert(!strcmp(text, again));
	free(again);
	free(text);
	return 0;
}
