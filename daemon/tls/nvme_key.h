/* Keys of NVMe/TCP hosts: NVM Express TCP Transport Specification 1.0c, 3.6.1.  Pure; any thread.
 *
 * Administrators give host and subsystem a configured PSK.  The host's NQN makes a retained PSK of
 * it, and the identity that the host names in its handshake the key of TLS. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "psk.h"

enum {
	NVME_KEY_MAX = 48,      /* bytes, of each of the three keys */
	NVME_KEY_NQN_MAX = 223, /* bytes of an NQN */
};

bool nvme_is_nqn(const char *text, size_t bytes);
/* Decodes `NVMeTLSkey-1:HASH:BASE64:`, as `nvme gen-tls-key` prints it, to ret->key, whose bytes
 * replace the text.  NULL, or a description of the valid form. */
const char *nvme_key_decode(char *text, size_t bytes, struct psk *ret);

/* `NVMe0R01 HOSTNQN SUBNQN`, `NVMe1R01 HOSTNQN SUBNQN DIGEST`; or 02. */
struct nvme_identity {
	const char *text, *host, *digest; /* digest: NULL with version 0 */
	enum psk_hash hash;               /* of the cipher suite */
	size_t bytes, host_bytes, digest_bytes;
	size_t nqns_bytes; /* of both NQNs and the space between them */
};

bool nvme_identity_parse(const char *text, size_t bytes, struct nvme_identity *ret);
/* The key of TLS, of psk_hash_bytes(id->hash) bytes, for a host's configured PSK.  NULL, or why
 * there is none. */
const char *nvme_key_derive(const struct psk *configured, const struct nvme_identity *id,
			    uint8_t ret_key[static NVME_KEY_MAX]);
