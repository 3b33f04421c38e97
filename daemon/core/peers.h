/* Peers: the addresses that send datagrams.  As no handshake precedes a datagram, an attacker can
 * forge any number of addresses, so the table of peers is bounded, and these rules decide which
 * peer it evicts:
 *
 * A new peer is on probation.  A peer that sends again, a millisecond or more after its first
 * datagram, becomes established, if there is room or the established peer that has been silent for
 * longest has been so for a second; some places are reserved for probation.  A full table evicts
 * the peer that has been on probation for longest.  Only a peer that becomes established evicts an
 * established one: active peers are safe from any number of peers that send once or twice.  A
 * pinned peer is never evicted, and takes the place of an established one.
 *
 * A table belongs to one worker. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "siphash.h"
#include "util.h"

struct conn;

/* The key of a peer; unused words are 0. */
struct peer_key {
	uint64_t words[5];
};

enum peer_list { PEER_UNKNOWN, PEER_PROBATION, PEER_ESTABLISHED, PEER_PINNED, PEER_LISTS };

enum {
	/* Places reserved for probation, if the table has at least twice as many. */
	PEERS_PROBATION_MIN = 64,
	/* A peer becomes established only by a datagram this long after its first one. */
	PEERS_PROBATION_NS = 1 * NS_PER_MS,
	/* An established peer that sent within this time is not evicted. */
	PEERS_ACTIVE_NS = NS_PER_S,
};

/* Embedded in the engine's record of the peer, which owns it. */
struct peer {
	struct peer_key key;
	struct conn *conn;
	struct peer *bucket_next, *older, *newer;
	uint64_t first_ns, active_ns;
	uint32_t hash;
	enum peer_list list; /* only peer_move() changes it */
};

struct peers {
	struct siphash_key secret;
	struct peer **buckets;
	uint32_t mask;
	unsigned max; /* places in the table; may change at any time */
	struct {
		struct peer *oldest, *newest;
		unsigned count;
	} lists[PEER_LISTS];
	/* Called to evict a peer; must call peers_forget() at once. */
	void (*evict)(struct peer *peer);
};

/* 0 or -errno.  The caller sets evict and max. */
int peers_init(struct peers *p);
void peers_fini(struct peers *p);

/* NULL: no such peer. */
struct peer *peers_find(const struct peers *p, const struct peer_key *key);

/* Adds a peer whose key is set and not in the table yet; may evict another. */
void peers_add(struct peers *p, struct peer *peer, uint64_t now_ns);

/* The peer has sent something; may evict another.  now_ns: of a coarse clock, so that most calls
 * return at once; not before that of peers_add(). */
void peers_set_active(struct peers *p, struct peer *peer, uint64_t now_ns);
static inline void peers_active(struct peers *p, struct peer *peer, uint64_t now_ns)
{
	if (peer->active_ns != now_ns)
		peers_set_active(p, peer, now_ns);
}

/* Protects the peer from eviction, unless pinned peers already have all places but
 * those reserved for probation. */
void peers_pin(struct peers *p, struct peer *peer);
/* Removes the peer; no error if it is not in the table. */
void peers_forget(struct peers *p, struct peer *peer);

static inline unsigned peers_count(const struct peers *p)
{
	return p->lists[PEER_PROBATION].count + p->lists[PEER_ESTABLISHED].count +
	       p->lists[PEER_PINNED].count;
}
