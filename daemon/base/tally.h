/* Counts objects (connections, sessions) by client address.  The caller locks. */
#pragma once
#include <netinet/in.h>
#include <stdint.h>

#include "siphash.h"

enum { TALLY_BUCKETS = 4096 };

/* The count of one address, at least one. */
struct tally_entry {
	struct tally_entry *next;
	struct in6_addr address; /* IPv4 as ::ffff:a.b.c.d */
	uint64_t count;
};

struct tally {
	struct siphash_key key;
	struct tally_entry *buckets[TALLY_BUCKETS];
};

/* For a zeroed struct: 0 or -errno. */
int tally_init(struct tally *t);
void tally_fini(struct tally *t);

/* Counts one more for this address; NULL: no memory, and nothing was counted. */
struct tally_entry *tally_add(struct tally *t, const struct in6_addr *address);
/* Counts one less; frees the entry when its count reaches 0. */
void tally_drop(struct tally *t, struct tally_entry *entry);
