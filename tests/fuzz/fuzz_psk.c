/* Fuzzes the reader of shared keys: a table has as many keys as lines, within their limits and each
 * found by its identity, and a text without one names a line of it.  The parts of an identity of
 * NVMe are within it. */
#include "fuzz.h"
#include "nvme_key.h"
#include "psk.h"

static unsigned lines_of(const char *text, size_t bytes)
{
	unsigned lines = 0;

	for (size_t i = 0; i < bytes; i++)
		lines += text[i] == '\n' || i == bytes - 1;
	return lines;
}

/* The key of NVMe in a valid line; NULL: a line of another kind, which has no space. */
static const char *nvme_part(const char *line, size_t bytes)
{
	const char *space = memchr(line, ' ', bytes);

	if (memmem(line, bytes, NVME_KEY_PREFIX, strlen(NVME_KEY_PREFIX)) == line)
		return line;
	return space ? space + 1 : NULL;
}

/* Every line is a key of t for what stands before its colon, or before the key of NVMe. */
static void look_up(const struct psk_table *t, const char *text, size_t bytes)
{
	unsigned found = 0;

	for (size_t at = 0, length; at < bytes; at += length + 1) {
		const char *end = memchr(text + at, '\n', bytes - at), *colon;
		const struct psk *k;

		length = end ? (size_t)(end - text) - at : bytes - at;
		if (length == 0)
			continue;
		found++;
		colon = nvme_part(text + at, length);
		if (colon) {
			k = psk_find_host(t, text + at,
					  (size_t)(colon - text) - at - (colon > text + at));
			assert(k && k->nvme && (k->key_bytes == 32 || k->key_bytes == 48));
			continue;
		}
		colon = memchr(text + at, ':', length);
		assert(colon);
		k = psk_find(t, text + at, (size_t)(colon - text) - at);
		assert(k && k->key_bytes >= PSK_KEY_MIN && k->key_bytes <= PSK_KEY_MAX);
		assert((size_t)(colon - text) - at + 1 + 2U * k->key_bytes == length);
	}
	assert(found == psk_count(t));
}

static void identify(const char *text, size_t bytes)
{
	struct nvme_identity id;

	if (!nvme_identity_parse(text, bytes, &id))
		return;
	assert(id.host_bytes > 0 && id.host_bytes + 2 <= id.nqns_bytes);
	assert(id.nqns_bytes <= 2 * NVME_KEY_NQN_MAX + 1);
	assert(id.host[id.host_bytes] == ' ' && id.host + id.nqns_bytes <= text + bytes);
	assert(!id.digest || id.digest + id.digest_bytes == text + bytes);
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
	identify(text, bytes);
	t = psk_parse(text, bytes, &line, &expected);
	if (t)
		look_up(t, text, bytes);
	else
		assert(expected && line <= lines_of(text, bytes));
	psk_free(t);
	free(text);
	return 0;
}
