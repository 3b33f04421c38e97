/* Identities made from names.  See nvme/wire/id.h. */
#include "id.h"

#include <stdio.h>
#include <string.h>

#include "bytes.h"

/* FNV-1a, with the finalizer of MurmurHash3, as FNV leaves the upper bits of short texts alike. */
static uint64_t hash(uint64_t h, const void *data, size_t bytes)
{
	const uint8_t *at = data;

	for (size_t i = 0; i < bytes; i++)
		h = (h ^ at[i]) * UINT64_C(0x100000001b3);
	return h;
}

static uint64_t finish(uint64_t h)
{
	h = (h ^ h >> 33) * UINT64_C(0xff51afd7ed558ccd);
	h = (h ^ h >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
	return h ^ h >> 33;
}

void nvme_id_uuid(const void *seed, size_t bytes, const char *name, const char *other,
		  uint8_t ret[static NVME_UUID])
{
	static const uint64_t bases[] = { UINT64_C(0xcbf29ce484222325),
					  UINT64_C(0x6c62272e07bb0142) };

	for (unsigned i = 0; i < 2; i++) {
		uint64_t h = hash(bases[i], seed, bytes);

		h = hash(h, name, strlen(name) + 1);
		h = hash(h, other, strlen(other) + 1);
		put_le64(ret + 8 * (size_t)i, finish(h));
	}
	ret[6] = (uint8_t)(0x80 | (ret[6] & 0x0f));
	ret[8] = (uint8_t)(0x80 | (ret[8] & 0x3f));
}

void nvme_id_nqn(const uint8_t uuid[static NVME_UUID], char ret[static NVME_NQN_MAX])
{
	size_t at = (size_t)snprintf(ret, NVME_NQN_MAX, "nqn.2014-08.org.nvmexpress:uuid:");

	for (unsigned i = 0; i < NVME_UUID; i++)
		at += (size_t)snprintf(ret + at, NVME_NQN_MAX - at, "%s%02x",
				       i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

void nvme_id_serial(const char *nqn, char ret[static NVME_SERIAL + 1])
{
	uint8_t uuid[NVME_UUID];

	nvme_id_uuid("serial", 6, nqn, "", uuid);
	for (size_t i = 0; i < NVME_SERIAL / 2; i++)
		snprintf(ret + 2 * i, 3, "%02x", uuid[i]);
}
