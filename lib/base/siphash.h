/* SipHash-1-3 (Aumasson and Bernstein) of 64-bit words: for tables whose keys clients choose, so
 * that they cannot aim at one bucket.  Any thread. */
#pragma once
#include <errno.h>
#include <stdint.h>
#include <sys/random.h>

/* The key of a hash table, random so that clients cannot predict buckets. */
struct siphash_key {
	uint64_t words[2];
};

/* 0 or -errno. */
static inline int siphash_key_init(struct siphash_key *key)
{
	return getrandom(key, sizeof(*key), 0) < 0 ? -errno : 0;
}

static inline uint64_t siphash_rotate(uint64_t v, unsigned by)
{
	return v << by | v >> (64 - by);
}

static inline void siphash_round(uint64_t v[static 4])
{
	v[0] += v[1];
	v[1] = siphash_rotate(v[1], 13) ^ v[0];
	v[0] = siphash_rotate(v[0], 32);
	v[2] += v[3];
	v[3] = siphash_rotate(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = siphash_rotate(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = siphash_rotate(v[1], 17) ^ v[2];
	v[2] = siphash_rotate(v[2], 32);
}

static inline uint64_t siphash(const struct siphash_key *key, const uint64_t *words, unsigned count)
{
	uint64_t v[4] = {
		key->words[0] ^ UINT64_C(0x736f6d6570736575),
		key->words[1] ^ UINT64_C(0x646f72616e646f6d),
		key->words[0] ^ UINT64_C(0x6c7967656e657261),
		key->words[1] ^ UINT64_C(0x7465646279746573),
	};
	uint64_t last = (uint64_t)count * sizeof(*words) << 56;

	for (unsigned i = 0; i < count; i++) {
		v[3] ^= words[i];
		siphash_round(v);
		v[0] ^= words[i];
	}
	v[3] ^= last;
	siphash_round(v);
	v[0] ^= last;
	v[2] ^= 0xff;
	for (unsigned i = 0; i < 3; i++)
		siphash_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}
