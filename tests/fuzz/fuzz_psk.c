/* Fuzzes the reader of shared keys: a table has as many keys as lines, within their limits and each
 * found by its identity, and a text without one names a line of it. */
#include "fuzz.h"
#include "psk.h"

static unsigned lines_of(const char *text, size_t bytes)
{
	unsigned lines = 0;

	for (size_t i = 0; i < bytes; i++)
		lines += text[i] == '\n' || i == bytes - 1;
	return lines;
}

/* Every line up to its colon is an identity of t. */
static void look_up(const struct psk_table *t, const char *text, size_t bytes)
{
	unsigned found = 0;

	for (size_t at = 0, length; at < bytes; at += length + 1) {
		const char *end = memchr(text + at, '\n', bytes - at), *colon;
		const struct psk *k;

		length = end ? (size_t)(end - text) - at : bytes - at;
		if (length == 0)
			continue;
		colon = memchr(text + at, ':', length);
		assert(colon);
		k = psk_find(t, text + at, (size_t)(colon - text) - at);
		assert(k && k->key_bytes >= PSK_KEY_MIN && k->key_bytes <= PSK_KEY_MAX);
		assert((size_t)(colon - text) - at + 1 + 2U * k->key_bytes == length);
		found++;
	}
	assert(found == psk_count(t));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char *text = malloc(bytes + !bytes); /* its own memory, for the sanitizer */
	const char *expected = NULL;
	struct psk_table *t;
	unsigned line = 0;

	assert(text);
	if (bytes > 0)
		memcpy(text, data, bytes);
	t = psk_parse(text, bytes, &line, &expected);
	if (t)
		look_up(t, text, bytes);
	else
		assert(expected && line <= lines_of(text, bytes));
	psk_free(t);
	free(text);
	return 0;
}
