/* tls/nvme_key.c: configured PSKs as texts, identities, and the keys of TLS.
 * Identities of version 1 are libnvme's (test/psk.c); the keys were derived by Python, of HMAC. */
#include "nvme_key.h"

#include "unit.h"
#include "util.h"

#define HOST      "nqn.psk-test-host"
#define DIGEST_02 "QhW2+Rp6RzHlNtCslyRxMnwJ11tKKhz8JCAQpQ+XUD8f9td1VeH5h53yz2wKJG1a"
#define SUBSYSTEM "nqn.psk-test-subsys"
#define KEY_00    "NVMeTLSkey-1:00:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:"
#define KEY_01    "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:"
#define KEY_02                                                                                     \
	"NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/"                             \
	"w0S89ELi3W2LxIcLXVsDn8kXZQ==:"

static const char *parse_key(const char *text, struct psk *ret)
{
	static char copy[200];

	strcpy(copy, text);
	*ret = (struct psk){ .nvme = true };
	return nvme_key_decode(copy, strlen(copy), ret);
}

TEST(configured_keys_are_decoded)
{
	struct psk k;

	assert_null(parse_key(KEY_00, &k));
	assert_int_equal(k.hash, PSK_NO_HASH);
	assert_int_equal(k.key_bytes, 32);
	assert_null(parse_key(KEY_01, &k));
	assert_int_equal(k.hash, PSK_SHA256);
	assert_memory_equal(k.key, "\x55\x12\xdb\xb6\x73\x7d\x01\x06", 8);
	assert_memory_equal(k.key + 28, "\x0b\x5d\x5b\x03", 4);
	assert_null(parse_key(KEY_02, &k));
	assert_int_equal(k.hash, PSK_SHA384);
	assert_int_equal(k.key_bytes, 48);
}

TEST(other_texts_are_no_keys)
{
	static const char *const texts[] = {
		"NVMeTLSkey-1:01:",
		"NVMeTLSkey-1:01::",
		"NVMeTLSkey-1:03:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
		"NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
		"NVMeTLSkey-2:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
		"NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ",
		"NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrA:",
		"NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9Lr=:",
		"NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9-wEf_DRLz0QuLdbYvEhwtdWwNf9LrZ:",
		"NVMeTLSkey-1:01:====:",
	};
	struct psk k;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_non_null(parse_key(texts[i], &k));
}

static void check(const char *key, bool compat, const char *text, const char *expected)
{
	uint8_t tls[NVME_KEY_MAX];
	struct nvme_identity id;
	char hex[2 * NVME_KEY_MAX + 1];
	struct psk k;

	assert_null(parse_key(key, &k));
	k.compat = compat;
	assert_true(nvme_identity_parse(text, strlen(text), &id));
	assert_null(nvme_key_derive(&k, &id, tls));
	for (size_t i = 0; i < psk_hash_bytes(id.hash); i++)
		sprintf(hex + 2 * i, "%02x", tls[i]);
	assert_string_equal(hex, expected);
}

TEST(keys_are_derived_as_others_do)
{
	check(KEY_01, false,
	      "NVMe1R01 " HOST " " SUBSYSTEM " iSbjiStwJ/1TrTvDlt2fjFmzvsytOJelidNnA+X5lEU=",
	      "8fc3c0badfd4c0c66fa3ca33aadd0314f85536cc9bc47338b60f3e6e563786ca");
	check(KEY_02, false,
	      "NVMe1R02 " HOST " " SUBSYSTEM
	      " QhW2+Rp6RzHlNtCslyRxMnwJ11tKKhz8JCAQpQ+XUD8f9td1VeH5h53yz2wKJG1a",
	      "a2b2f943f479fc682555cec89857c80ed004ce92f32a973d5764155bb7e36b17"
	      "a85368a0666d250afac9282dda2e62ca");
	check(KEY_01, true,
	      "NVMe1R01 " HOST " " SUBSYSTEM " 66GuqV08TsAGII39teWUfwQwizjv06Jy8jOcX3NAAzM=",
	      "b9f5ab2a41ba6e72a23a12066302a2f775fa6c0942c8e0b18ca8ac07edf305e2");
	check(KEY_02, true,
	      "NVMe1R02 " HOST " " SUBSYSTEM
	      " RsKmYJ3nAn1ApjjMloJFbAkLPivONDAX/xW327YBUsn2eGShXSjCZvBaOxscLqmz",
	      "fcefe2e2a2e682b1447dcabf1ec268f78f08c63cd075753abcc8bda2c5c34d48"
	      "d3014aa8d76ad80107e4f5c9f27e2149");
	check(KEY_00, false,
	      "NVMe1R01 " HOST " " SUBSYSTEM " quJVUJjp/BImWR0UQay/MjSfEgyAr6TyBOWybS/B404=",
	      "a45d08ee4639c7570729bb3e57e905e466a49a15ece5401af906830c4d3bdb0b");
	check(KEY_01, false, "NVMe0R01 " HOST " " SUBSYSTEM,
	      "05c6503551ad136e6ee32e6eeb3f6d500b69701d84ec71e328f65c7f51566f68");
	check(KEY_02, true, "NVMe0R02 " HOST " " SUBSYSTEM,
	      "2ee4754186a625b28a3936ef4a40d839c3ad958b2e017562ee07e2501f172ce9"
	      "99dc9c29033ea7ee33f814f192c13f47");
}

TEST(an_identity_of_another_key_has_none)
{
	static const char text[] =
		"NVMe1R01 " HOST " " SUBSYSTEM " iSbjiStwJ/1TrTvDlt2fjFmzvsytOJelidNnA+X5lEU=";
	uint8_t tls[NVME_KEY_MAX];
	struct nvme_identity id;
	struct psk k;

	assert_true(nvme_identity_parse(text, strlen(text), &id));
	assert_null(parse_key(KEY_00, &k));
	assert_non_null(nvme_key_derive(&k, &id, tls));
	assert_null(parse_key(KEY_01, &k));
	k.compat = true;
	assert_non_null(nvme_key_derive(&k, &id, tls));
}

TEST(identities_have_their_parts)
{
	static const char text[] = "NVMe1R02 a b:c " DIGEST_02;
	struct nvme_identity id;

	assert_true(nvme_identity_parse(text, sizeof(text) - 1, &id));
	assert_int_equal(id.hash, PSK_SHA384);
	assert_int_equal(id.host_bytes, 1);
	assert_int_equal(id.nqns_bytes, 5);
	assert_memory_equal(id.host, "a b:c", 5);
	assert_string_equal(id.digest, DIGEST_02);
	assert_true(nvme_identity_parse("NVMe0R01 a b", 12, &id));
	assert_null(id.digest);
}

TEST(other_texts_are_no_identities)
{
	static const char *const texts[] = {
		"",
		"NVMe",
		"NVMe0R01 ",
		"NVMe0R01 a",
		"NVMe0R01 a ",
		"NVMe0R01  a",
		"NVMe0R01 a b c",
		"NVMe1R01 a b",
		"NVMe1R01 a b ",
		"NVMe0R00 a b",
		"NVMe0R03 a b",
		"NVMe2R01 a b c",
		"NVMe0G01 a b",
		"NVMe0R11 a b",
		"nvme0R01 a b",
		"NVMe0R01:a b",
		"NVMe0R01 a\tb",
		"NVMe0R01 a\nb",
		"NVMe0R01 \xc3 b",
	};
	struct nvme_identity id;
	char name[NVME_KEY_NQN_MAX + 2] = "", text[2 * sizeof(name)];

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_false(nvme_identity_parse(texts[i], strlen(texts[i]), &id));
	memset(name, 'n', NVME_KEY_NQN_MAX);
	sprintf(text, "NVMe0R01 %s b", name);
	assert_true(nvme_identity_parse(text, strlen(text), &id));
	name[NVME_KEY_NQN_MAX] = 'n';
	sprintf(text, "NVMe0R01 %s b", name);
	assert_false(nvme_identity_parse(text, strlen(text), &id));
}
