/* tls/psk.c: lines of keys that clients share, and the lines that are refused. */
#include "psk.h"
#include "unit.h"

#define KEY16 "000102030405060708090a0B0c0D0e0F"

static struct psk_table *parse(const char *text, unsigned *ret_line)
{
	const char *expected = "nothing";
	struct psk_table *t = psk_parse(text, strlen(text), ret_line, &expected);

	assert_true(t || *expected);
	return t;
}

TEST(keys_are_found_by_their_identity)
{
	static const uint8_t bytes[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
	unsigned line;
	struct psk_table *t =
		parse("alice:" KEY16 "\n\nb@lab.example:" KEY16 KEY16 KEY16 KEY16, &line);
	const struct psk *k;

	assert_non_null(t);
	assert_int_equal(psk_count(t), 2);
	k = psk_find(t, "alice", 5);
	assert_non_null(k);
	assert_int_equal(k->key_bytes, 16);
	assert_memory_equal(k->key, bytes, 16);
	k = psk_find(t, "b@lab.example", 13);
	assert_non_null(k);
	assert_int_equal(k->key_bytes, 64);
	assert_memory_equal(k->key + 48, bytes, 16);
	assert_null(psk_find(t, "alic", 4));
	assert_null(psk_find(t, "alice2", 6));
	assert_null(psk_find(t, "", 0));
	psk_free(t);
}

#define NVME_KEY "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:"

TEST(keys_of_nvme_are_found_by_the_host)
{
	unsigned line;
	struct psk_table *t = parse("nqn.a:b " NVME_KEY " compat\nnqn.a:" KEY16, &line);
	const struct psk *k;

	assert_non_null(t);
	k = psk_find_host(t, "nqn.a:b", 7);
	assert_non_null(k);
	assert_true(k->nvme && k->compat);
	assert_int_equal(k->key_bytes, 32);
	assert_null(psk_find_host(t, "nqn.a", 5));
	assert_null(psk_find_host(t, "nqn.a:", 6));
	assert_null(psk_find(t, "nqn.a:b", 7));
	assert_non_null(psk_find(t, "nqn.a", 5));
	psk_free(t);
	t = parse(NVME_KEY "\nnqn.a " NVME_KEY, &line);
	assert_non_null(t);
	assert_ptr_not_equal(psk_find_host(t, "nqn.a", 5), psk_find_host(t, "nqn.b", 5));
	assert_false(psk_find_host(t, "nqn.b", 5)->compat);
	assert_null(psk_find(t, "", 0));
	psk_free(t);
}

TEST(a_wrong_line_is_named)
{
	static const struct {
		const char *text;
		unsigned line;
	} cases[] = {
		{ "", 0 },
		{ "\n\n", 0 },
		{ "alice", 1 },
		{ "alice:", 1 },
		{ ":" KEY16, 1 },
		{ "#616c696365:" KEY16, 1 },
		{ "al ice:" KEY16, 1 },
		{ "alic\xc3\xa9:" KEY16, 1 },
		{ "a:" KEY16 "\nb:" KEY16 "\r\n", 2 },
		{ "a:" KEY16 "\n\nb:" KEY16 "0", 3 },
		{ "a:" KEY16 "\nb:0" KEY16 KEY16 KEY16 KEY16 "0", 2 },
		{ "a:" KEY16 "\nb:00010203040506070809", 2 },
		{ "a:" KEY16 "\nb:0001020304050607080910111213141g", 2 },
		{ "a:" KEY16 "\nb:" KEY16 "\na:" KEY16, 3 },
		{ NVME_KEY "\n" NVME_KEY, 2 },
		{ "nqn.a " NVME_KEY "\nnqn.b " NVME_KEY "\nnqn.a " NVME_KEY, 3 },
		{ " " NVME_KEY, 1 },
		{ "nqn.a  " NVME_KEY, 1 },
		{ "nqn.a\t" NVME_KEY, 1 },
		{ NVME_KEY " other", 1 },
		{ "nqn.a NVMeTLSkey-1:01:abcd:", 1 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unsigned line = 99;

		assert_null(parse(cases[i].text, &line));
		assert_int_equal(line, cases[i].line);
	}
}

TEST(a_thousand_keys_are_the_most)
{
	static char text[(PSK_KEYS_MAX + 1) * 40];
	unsigned line = 0;
	size_t used = 0;
	struct psk_table *t;

	for (unsigned i = 0; i < PSK_KEYS_MAX; i++)
		used += (size_t)sprintf(text + used, "u%u:" KEY16 "\n", i);
	t = parse(text, &line);
	assert_non_null(t);
	assert_int_equal(psk_count(t), PSK_KEYS_MAX);
	assert_non_null(psk_find(t, "u999", 4));
	psk_free(t);
	sprintf(text + used, "one_more:" KEY16 "\n");
	assert_null(parse(text, &line));
	assert_int_equal(line, PSK_KEYS_MAX + 1);
}
