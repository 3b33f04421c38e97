/* Fuzzes the filter of text for terminals: what it lets through is printable UTF-8, filtering that
 * again changes nothing, and it never reads past the end. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "printable.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char *text = malloc(bytes + 1), *again;

	assert(text);
	if (bytes)
		memcpy(text, data, bytes);
	text[bytes] = '\0';
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
