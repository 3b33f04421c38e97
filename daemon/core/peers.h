/* Peers: those who send datagrams, to whom nobody has to connect, so that a forger makes as many as
 * he likes.  A table of them that stays within bounds, by who forgets whom:
 *
 * A new peer is on probation.  One that comes again, a millisecond or more after its first
 * datagram, becomes established, if there is room or the one that has been silent for longest has
 * been so for a second; some places are never for the established.  A full table forgets the peer
 * that has been on probation for longest.  Only established peers push established ones out: who is
 * active is safe from any number who send once, and from those who send twice as well.  Who is
 * pinned stays until it is forgotten; that takes the place of an established one.
 *
 * A table belongs to one worker. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "util.h"

struct conn;

/* The key of a peer; fields that do not matter are 0. */
struct peer_key {
	uint64_t words[5];
};

enum peer_list { PEER_UNKNOWN, PEER_PROBATION, PEER_ESTABLISHED, PEER_PINNED, PEER_LISTS };

enum {
	PEERS_PROBATION_MIN = 64,           /* places, if there are twice as many in all */
	PEERS_PROBATION_NS = 1 * NS_PER_MS, /* that a peer must come again after, or later */
	PEERS_ACTIVE_NS = NS_PER_S,         /* a peer that sent since then is not pushed out */
};

/* Embedded in what an engine has for it. */
struct peer {
	struct peer_key key;
	struct conn *conn;
	struct peer *bucket_next, *older, *newer;
	uint64_t first_ns, heard_ns;
	uint32_t hash;
	enum peer_list list; /* peer_move() changes it */
};

struct peers {
	uint64_t secret[2]; /* so that nobody can fill one bucket */
	struct peer **buckets;
	uint32_t mask;
	unsigned max; /* peers; may change while there are some */
	struct {
		struct peer *oldest, *newest;
		unsigned count;
	} lists[PEER_LISTS];
	/* Called for a peer that is evicted, which must peers_forget() it at once. */
	void (*evict)(struct peer *peer);
};

/* 0 or -errno.  evict and max are the caller's to set. */
int peers_init(struct peers *p);
void peers_fini(struct peers *p);

/* NULL: not there. */
struct peer *peers_find(const struct peers *p, const struct peer_key *key);

/* Adds a peer that is not there yet, with its key set; may evict another. */
void peers_add(struct peers *p, struct peer *peer, uint64_t now_ns);

/* The peer has sent something; may evict another.  now_ns: of a coarse clock. */
void peers_heard_again(struct peers *p, struct peer *peer, uint64_t now_ns);
static inline void peers_heard(struct peers *p, struct peer *peer, uint64_t now_ns)
{
	if (peer->heard_ns != now_ns)
		peers_heard_again(p, peer, now_ns);
}

/* The peer stays, unless so many do that they have all places but those of probation. */
void peers_pin(struct peers *p, struct peer *peer);
/* Removes the peer; no error if it is not there. */
void peers_forget(struct peers *p, struct peer *peer);

static inline unsigned peers_count(const struct peers *p)
{
	return p->lists[PEER_PROBATION].count + p->lists[PEER_ESTABLISHED].count +
	       p->lists[PEER_PINNED].count;
}
