/* Pre-shared keys.  See psk.h. */
#include "psk.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "nvme_key.h"

struct psk_table {
	unsigned count;
	struct psk keys[PSK_KEYS_MAX];
	size_t bytes;
	char text[]; /* the text of the file; the bytes of each key replace its digits */
};

static int digit_value(char c)
{
	int lower = c | 0x20;

	if (c >= '0' && c <= '9')
		return c - '0';
	return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* Replaces digits by the bytes that they mean; how many, 0 if they are none or too few or many. */
static size_t decode(char *digits, size_t count)
{
	uint8_t *to = (uint8_t *)digits;

	if (count % 2 || count < 2 * PSK_KEY_MIN || count > 2 * PSK_KEY_MAX)
		return 0;
	for (size_t i = 0; i < count; i++)
		if (digit_value(digits[i]) < 0)
			return 0;
	for (size_t i = 0; i < count / 2; i++)
		to[i] = (uint8_t)(digit_value(digits[2 * i]) << 4 | digit_value(digits[2 * i + 1]));
	explicit_bzero(to + count / 2, count / 2); /* digits that are left */
	return count / 2;
}

/* Clients with GnuTLS read an identity that begins with `#` in another way. */
static bool is_identity(const char *text, size_t bytes)
{
	if (bytes == 0 || bytes > PSK_IDENTITY_MAX || text[0] == '#')
		return false;
	for (size_t i = 0; i < bytes; i++)
		if (text[i] <= ' ' || text[i] > '~')
			return false;
	return true;
}

static const struct psk *find(const struct psk_table *t, bool nvme, const char *identity,
			      size_t bytes)
{
	for (unsigned i = 0; i < t->count; i++)
		if (t->keys[i].nvme == nvme && t->keys[i].identity_bytes == bytes &&
		    !memcmp(t->keys[i].identity, identity, bytes))
			return &t->keys[i];
	return NULL;
}

/* Where the key begins in a line of an NVMe host; NULL: it is none. */
static char *find_nvme_key(char *line, size_t bytes)
{
	char *key = memmem(line, bytes, NVME_KEY_PREFIX, strlen(NVME_KEY_PREFIX));

	return key && (key == line || key[-1] == ' ') ? key : NULL;
}

/* These return a description of the valid form if the line is invalid; NULL: it is valid. */

static const char *parse_nvme(const char *line, char *key, size_t bytes, struct psk *ret)
{
	static const char compat[] = " compat";
	const size_t suffix = sizeof(compat) - 1;

	ret->nvme = true;
	ret->identity_bytes = (uint16_t)(key > line ? key - 1 - line : 0);
	if (key > line && !nvme_is_nqn(line, ret->identity_bytes))
		return "the host's NQN, 1 to 223 visible characters of ASCII, before NVMeTLSkey-1";
	bytes -= (size_t)(key - line);
	ret->compat = bytes > suffix && !memcmp(key + bytes - suffix, compat, suffix);
	return nvme_key_decode(key, bytes - (ret->compat ? suffix : 0), ret);
}

static const char *parse_plain(const char *line, char *colon, size_t bytes, struct psk *ret)
{
	size_t name_bytes = colon ? (size_t)(colon - line) : 0;

	if (!colon || !is_identity(line, name_bytes))
		return "IDENTITY:KEY, the identity 1 to 127 visible characters of ASCII, not # "
		       "first; or of NVMe: HOSTNQN NVMeTLSkey-1:HASH:BASE64:";
	ret->identity_bytes = (uint16_t)name_bytes;
	ret->key = (const uint8_t *)colon + 1;
	ret->key_bytes = (uint16_t)decode(colon + 1, bytes - name_bytes - 1);
	return ret->key_bytes ? NULL
			      : "a key of 16 to 64 bytes in hexadecimal digits behind the colon";
}

static const char *add_line(struct psk_table *t, char *line, size_t bytes)
{
	char *key = find_nvme_key(line, bytes);
	struct psk k = { .identity = line };
	const char *expected;

	if (bytes == 0)
		return NULL;
	expected = key ? parse_nvme(line, key, bytes, &k)
		       : parse_plain(line, memchr(line, ':', bytes), bytes, &k);
	if (expected)
		return expected;
	if (find(t, k.nvme, line, k.identity_bytes))
		return "each identity once";
	if (t->count == PSK_KEYS_MAX)
		return "at most 1000 keys";
	t->keys[t->count++] = k;
	return NULL;
}

struct psk_table *psk_parse(const char *text, size_t bytes, unsigned *ret_line,
			    const char **ret_expected)
{
	struct psk_table *t = calloc(1, sizeof(*t) + bytes);
	const char *expected = t ? NULL : "more memory";
	unsigned line = 0;

	if (t && bytes > 0)
		memcpy(t->text, text, t->bytes = bytes);
	for (size_t at = 0; !expected && at < bytes; line++) {
		const char *end = memchr(t->text + at, '\n', bytes - at);
		size_t length = end ? (size_t)(end - t->text) - at : bytes - at;

		expected = add_line(t, t->text + at, length);
		at += length + 1;
	}
	if (!expected && t->count == 0) {
		line = 0;
		expected = "lines IDENTITY:KEY, the key in hexadecimal digits";
	}
	if (!expected)
		return t;
	*ret_line = line;
	*ret_expected = expected;
	psk_free(t);
	return NULL;
}

struct psk_table *psk_read(const char *path, uint64_t end_ns, struct reason *reason)
{
	struct psk_table *t;
	struct tls_file f;
	const char *expected;
	char place[32] = "";
	unsigned line;

	if (tls_file_read(&f, "tls-psk-file", path, true,
			  "; make it: `psktool -u NAME -p FILE`, or a line "
			  "NAME:$(openssl rand -hex 32)",
			  end_ns, reason) < 0)
		return NULL;
	t = psk_parse(f.text, f.bytes, &line, &expected);
	if (!t) {
		if (line)
			snprintf(place, sizeof(place), "line %u of ", line);
		reason_set(reason, -EINVAL,
			   "tls-psk-file: expected %s, got something else in %s'%s'", expected,
			   place, path);
	}
	tls_file_wipe(&f);
	return t;
}

void psk_free(struct psk_table *t)
{
	if (t)
		explicit_bzero(t, sizeof(*t) + t->bytes);
	free(t);
}

unsigned psk_count(const struct psk_table *t)
{
	return t->count;
}

const struct psk *psk_find(const struct psk_table *t, const char *identity, size_t bytes)
{
	return find(t, false, identity, bytes);
}

const struct psk *psk_find_host(const struct psk_table *t, const char *nqn, size_t bytes)
{
	const struct psk *k = find(t, true, nqn, bytes);

	return k ? k : find(t, true, "", 0);
}
