/* Keys that a listener with TLS shares with its clients, in a file as psktool makes it: lines
 * `IDENTITY:HEX`; and those of NVMe hosts, `HOSTNQN NVMeTLSkey-1:HASH:BASE64:`, or without HOSTNQN
 * for hosts that have no line.  A table does not change when it was read, so any thread may look
 * into it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reason.h"

enum {
	PSK_KEYS_MAX = 1000, /* of a file */
	PSK_IDENTITY_MAX = 127,
	PSK_KEY_MIN = 16, /* bytes */
	PSK_KEY_MAX = 64,
};

#define NVME_KEY_PREFIX "NVMeTLSkey-"

/* As NVMe numbers them. */
enum psk_hash { PSK_NO_HASH, PSK_SHA256, PSK_SHA384 };
static inline size_t psk_hash_bytes(enum psk_hash hash)
{
	return hash == PSK_SHA256 ? 32 : 48;
}

struct psk {
	const char *identity; /* without a NUL; nvme: the host's NQN, "" for all others */
	const uint8_t *key;
	uint16_t identity_bytes, key_bytes;
	bool nvme; /* the key is a configured PSK of NVMe, from which others are derived */
	/* nvme: that of the retained PSK; PSK_NO_HASH: it is the configured one. */
	enum psk_hash hash;
	bool compat; /* nvme: the host's libnvme derives keys as those before 1.16 did */
};

struct psk_table;

/* Parses a text of keys.  NULL: *ret_line is the number of the invalid line, or 0 if the error is
 * not in one line, and the other result describes, as a static text, the valid form. */
struct psk_table *psk_parse(const char *text, size_t bytes, unsigned *ret_line,
			    const char **ret_expected);
/* The keys of a file, read by end_ns (tls_file_read()), whose copies are wiped; NULL with the
 * reason. */
struct psk_table *psk_read(const char *path, uint64_t end_ns, struct reason *reason);
/* Wipes the table; NULL is no error. */
void psk_free(struct psk_table *t);

unsigned psk_count(const struct psk_table *t);
/* NULL: there is none with that identity. */
const struct psk *psk_find(const struct psk_table *t, const char *identity, size_t bytes);
/* The NVMe key of that host, or of all others; NULL: there is none. */
const struct psk *psk_find_host(const struct psk_table *t, const char *nqn, size_t bytes);
