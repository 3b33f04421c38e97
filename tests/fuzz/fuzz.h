/* What every fuzz target needs. */
#pragma once
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* The input as a text, which the caller frees. */
static inline char *fuzz_text(const uint8_t *data, size_t bytes)
{
	char *text = malloc(bytes + 1);

	assert(text);
	if (bytes)
		memcpy(text, data, bytes);
	text[bytes] = '\0';
	return text;
}
