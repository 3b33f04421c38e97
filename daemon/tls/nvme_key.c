/* Keys of NVMe/TCP hosts, by OpenSSL.  See nvme_key.h. */
#include "nvme_key.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <stdio.h>
#include <string.h>

#include "bytes.h"

enum { CONTEXT_MAX = 255 /* bytes, of HkdfLabel's context */ };

/* CRC-32 of IEEE 802.3, for which a key of 48 bytes needs no table. */
static uint32_t crc32(const uint8_t *data, size_t bytes)
{
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < bytes * 8; i++) {
		crc ^= i % 8 ? 0 : data[i / 8];
		crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return ~crc;
}

const char *nvme_key_decode(char *text, size_t bytes, struct psk *ret)
{
	static const char form[] = NVME_KEY_PREFIX "1:00:";
	static const int sizes[] = { 0, 32, 48 }; /* by enum psk_hash */
	uint8_t *key = (uint8_t *)text + sizeof(form) - 1;
	int hash, size;

	if (bytes < sizeof(form) || memcmp(text, form, sizeof(form) - 3) != 0 || key[-1] != ':' ||
	    key[-2] < '0' || key[-2] > '2' || text[bytes - 1] != ':')
		return "NVMeTLSkey-1:HASH:BASE64:, as `nvme gen-tls-key` prints it";
	hash = key[-2] - '0';
	size = EVP_DecodeBlock(key, key, (int)(bytes - sizeof(form))) - 4; /* without its CRC */
	if (size == 50 && text[bytes - 2] == '=') /* what Base64 is filled up with is counted */
		size -= 2;
	if ((size != 32 && size != 48) || (hash && sizes[hash] != size))
		return "32 bytes and their CRC in NVMeTLSkey-1:01:BASE64:, 48 in "
		       "NVMeTLSkey-1:02:BASE64:";
	if (get_le32(key + size) != crc32(key, (size_t)size))
		return "a key with its own CRC in NVMeTLSkey-1:HASH:BASE64:";
	explicit_bzero(key + size, (size_t)((uint8_t *)text + bytes - key) - (size_t)size);
	ret->key = key;
	ret->key_bytes = (uint16_t)size;
	ret->hash = (enum psk_hash)hash;
	return NULL;
}

/* ---- Identities ---- */

/* The length of an NQN at the begin of a text; 0: none, or too long. */
static size_t nqn_bytes(const char *text, size_t bytes)
{
	size_t n = 0;

	while (n < bytes && text[n] > ' ' && text[n] <= '~')
		n++;
	return n <= NVME_KEY_NQN_MAX ? n : 0;
}

bool nvme_is_nqn(const char *text, size_t bytes)
{
	return bytes > 0 && nqn_bytes(text, bytes) == bytes;
}

bool nvme_identity_parse(const char *text, size_t bytes, struct nvme_identity *ret)
{
	const size_t host = strlen("NVMe0R01 ");
	size_t subsystem, end;

	if (bytes <= host || memcmp(text, "NVMe", 4) != 0 || (text[4] | 1) != '1' ||
	    memcmp(text + 5, "R0", 2) != 0 || (text[7] != '1' && text[7] != '2') || text[8] != ' ')
		return false;
	subsystem = host + nqn_bytes(text + host, bytes - host) + 1;
	if (subsystem == host + 1 || subsystem >= bytes || text[subsystem - 1] != ' ')
		return false;
	end = subsystem + nqn_bytes(text + subsystem, bytes - subsystem);
	*ret = (struct nvme_identity){
		.text = text,
		.host = text + host,
		.hash = (enum psk_hash)(text[7] - '0'),
		.bytes = bytes,
		.host_bytes = subsystem - 1 - host,
		.nqns_bytes = end - host,
	};
	if (text[4] == '0')
		return end > subsystem && end == bytes && bytes <= CONTEXT_MAX;
	ret->digest = text + end + 1;
	ret->digest_bytes = end + 1 < bytes ? bytes - end - 1 : 0;
	return end > subsystem && text[end < bytes ? end : 0] == ' ' &&
	       ret->digest_bytes ==
		       psk_hash_bytes(ret->hash) / 3 * 4 + (ret->hash == PSK_SHA256) * 4 &&
	       nvme_is_nqn(ret->digest, ret->digest_bytes);
}

/* ---- The key of TLS ---- */

static char *digest_name(enum psk_hash hash)
{
	static char names[][8] = { "", "SHA256", "SHA384" };

	return names[hash];
}

/* HkdfLabel of RFC 8446, 7.1.  compat: as libnvme before 1.16 wrote it, without the lengths of
 * label and context, and with that of the result in the other order. */
static size_t put_label(uint8_t *to, bool compat, size_t bytes, const char *label,
			const char *context, size_t context_bytes)
{
	uint8_t *at = compat ? put_le16(to, (uint16_t)bytes) : put_be16(to, (uint16_t)bytes);

	if (!compat)
		*at++ = (uint8_t)strlen(label);
	at = put_text(at, label, strlen(label));
	if (!compat)
		*at++ = (uint8_t)context_bytes;
	return (size_t)(put_text(at, context, context_bytes) - to);
}

/* HKDF-Expand-Label(HKDF-Extract(0, secret->key), label, context, bytes) to ret; hash:
 * secret->hash's or another. */
static const char *expand(const struct psk *secret, enum psk_hash hash, const char *label,
			  const char *context, size_t context_bytes, uint8_t *ret, size_t bytes)
{
	EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
	EVP_KDF_CTX *ctx = EVP_KDF_CTX_new(kdf);
	uint8_t info[4 + 32 + CONTEXT_MAX];
	size_t info_bytes = put_label(info, secret->compat, bytes, label, context, context_bytes);
	const OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest_name(hash), 0),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)secret->key,
						  secret->key_bytes),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info, info_bytes),
		OSSL_PARAM_construct_end(),
	};
	bool good = ctx && EVP_KDF_derive(ctx, ret, bytes, params) > 0;

	EVP_KDF_CTX_free(ctx);
	EVP_KDF_free(kdf);
	return good ? NULL : "OpenSSL cannot derive its key";
}

/* Is the digest of the identity that of the retained PSK? */
static bool has_digest(const struct nvme_identity *id, const struct psk *retained)
{
	static const char suffix[] = " NVMe-over-Fabrics";
	uint8_t hash_input[2 * NVME_KEY_NQN_MAX + sizeof(suffix)], mac[NVME_KEY_MAX];
	char text[NVME_KEY_MAX / 3 * 4 + 1];
	size_t bytes = id->nqns_bytes + sizeof(suffix) - 1;

	memcpy(mempcpy(hash_input, id->host, id->nqns_bytes), suffix, sizeof(suffix) - 1);
	if (!EVP_Q_mac(NULL, "HMAC", NULL, digest_name(id->hash), NULL, retained->key,
		       retained->key_bytes, hash_input, bytes, mac, sizeof(mac), &bytes))
		return false;
	EVP_EncodeBlock((uint8_t *)text, mac, (int)bytes);
	return !memcmp(id->digest, text, id->digest_bytes);
}

const char *nvme_key_derive(const struct psk *configured, const struct nvme_identity *id,
			    uint8_t ret_key[static NVME_KEY_MAX])
{
	char digest[3 + NVME_KEY_MAX / 3 * 4 + 1]; /* hash, a space, the digest */
	const char *context = id->text, *why = NULL;
	struct psk retained = *configured;
	uint8_t key[NVME_KEY_MAX];
	size_t bytes = id->bytes;

	if (configured->hash) {
		why = expand(configured, configured->hash, "tls13 HostNQN", id->host,
			     id->host_bytes, key, configured->key_bytes);
		retained.key = key;
	}
	if (!why && id->digest) {
		if (!has_digest(id, &retained))
			why = "its digest is of another key than the host's in tls-psk-file";
		context = digest;
		bytes = (size_t)sprintf(digest, "%.3s%.*s", id->text + 6, (int)id->digest_bytes,
					id->digest);
	}
	if (!why)
		why = expand(&retained, id->hash, "tls13 nvme-tls-psk", context, bytes, ret_key,
			     psk_hash_bytes(id->hash));
	OPENSSL_cleanse(key, sizeof(key));
	return why;
}
