/* Peers.  See peers.h. */
#include "peers.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PEERS_BUCKETS_FIRST = 1024 };

static uint32_t peers_hash(const struct peers *p, const struct peer_key *key)
{
	return (uint32_t)siphash(&p->secret, key->words, ARRAY_SIZE(key->words));
}

/* ---- The two lists ---- */

/* The only place that changes on which list a peer is. */
static void peer_move(struct peers *p, struct peer *peer, enum peer_list to)
{
	enum peer_list from = peer->list;

	if (from != PEER_UNKNOWN) {
		*(peer->newer ? &peer->newer->older : &p->lists[from].newest) = peer->older;
		*(peer->older ? &peer->older->newer : &p->lists[from].oldest) = peer->newer;
		p->lists[from].count--;
	}
	peer->list = to;
	if (to == PEER_UNKNOWN)
		return;
	peer->newer = NULL;
	peer->older = p->lists[to].newest;
	*(peer->older ? &peer->older->newer : &p->lists[to].oldest) = peer;
	p->lists[to].newest = peer;
	p->lists[to].count++;
}

static unsigned peers_probation_max(const struct peers *p)
{
	return MAX(MAX(p->max / 8, MIN(p->max / 2, (unsigned)PEERS_PROBATION_MIN)), 1U);
}

/* Places that are not reserved for peers on probation. */
static unsigned peers_lasting_max(const struct peers *p)
{
	return p->max - MIN(peers_probation_max(p), p->max);
}

/* Is there a free place for an established peer, or may one be freed
 * because its peer is inactive? */
static bool peers_may_establish(struct peers *p, uint64_t now_ns)
{
	unsigned max =
		peers_lasting_max(p) - MIN(p->lists[PEER_PINNED].count, peers_lasting_max(p));
	struct peer *oldest = p->lists[PEER_ESTABLISHED].oldest;

	if (p->lists[PEER_ESTABLISHED].count < max)
		return true;
	if (!oldest || max == 0 || now_ns - oldest->active_ns < PEERS_ACTIVE_NS)
		return false;
	p->evict(oldest);
	return p->lists[PEER_ESTABLISHED].count < max;
}

void peers_set_active(struct peers *p, struct peer *peer, uint64_t now_ns)
{
	assert(peer->first_ns <= now_ns);
	peer->active_ns = now_ns;
	if (peer->list == PEER_PINNED)
		return;
	if (peer->list == PEER_ESTABLISHED ||
	    (now_ns - peer->first_ns >= PEERS_PROBATION_NS && peers_may_establish(p, now_ns)))
		peer_move(p, peer, PEER_ESTABLISHED);
}

/* ---- The table ---- */

/* Without memory for more buckets the chains grow longer. */
static void peers_grow(struct peers *p)
{
	uint32_t count = 2 * (p->mask + 1);
	struct peer **buckets = calloc(count, sizeof(struct peer *));

	if (!buckets)
		return;
	for (uint32_t i = 0; i <= p->mask; i++)
		while (p->buckets[i]) {
			struct peer *peer = p->buckets[i];

			p->buckets[i] = peer->bucket_next;
			peer->bucket_next = buckets[peer->hash & (count - 1)];
			buckets[peer->hash & (count - 1)] = peer;
		}
	free(p->buckets);
	p->buckets = buckets;
	p->mask = count - 1;
}

struct peer *peers_find(const struct peers *p, const struct peer_key *key)
{
	struct peer *peer = p->buckets[peers_hash(p, key) & p->mask];

	while (peer && memcmp(&peer->key, key, sizeof(*key)) != 0)
		peer = peer->bucket_next;
	return peer;
}

/* The peer to be evicted next; NULL: all are pinned. */
static struct peer *peers_oldest(const struct peers *p)
{
	return p->lists[PEER_PROBATION].oldest ?: p->lists[PEER_ESTABLISHED].oldest;
}

void peers_add(struct peers *p, struct peer *peer, uint64_t now_ns)
{
	struct peer **bucket, *oldest;

	while (peers_count(p) >= p->max && (oldest = peers_oldest(p)))
		p->evict(oldest);
	if (peers_count(p) > p->mask)
		peers_grow(p);
	peer->first_ns = peer->active_ns = now_ns;
	peer->hash = peers_hash(p, &peer->key);
	bucket = &p->buckets[peer->hash & p->mask];
	peer->bucket_next = *bucket;
	*bucket = peer;
	peer_move(p, peer, PEER_PROBATION);
}

void peers_pin(struct peers *p, struct peer *peer)
{
	struct peer *oldest;

	if (peer->list == PEER_UNKNOWN || peer->list == PEER_PINNED ||
	    p->lists[PEER_PINNED].count >= peers_lasting_max(p))
		return;
	peer_move(p, peer, PEER_PINNED);
	while (p->lists[PEER_ESTABLISHED].count + p->lists[PEER_PINNED].count >
		       peers_lasting_max(p) &&
	       (oldest = p->lists[PEER_ESTABLISHED].oldest))
		p->evict(oldest);
}

void peers_forget(struct peers *p, struct peer *peer)
{
	struct peer **at = &p->buckets[peer->hash & p->mask];

	if (peer->list == PEER_UNKNOWN)
		return;
	while (*at != peer)
		at = &(*at)->bucket_next;
	*at = peer->bucket_next;
	peer_move(p, peer, PEER_UNKNOWN);
}

int peers_init(struct peers *p)
{
	*p = (struct peers){ .mask = PEERS_BUCKETS_FIRST - 1 };
	p->buckets = calloc(PEERS_BUCKETS_FIRST, sizeof(struct peer *));
	if (!p->buckets)
		return -ENOMEM;
	return siphash_key_init(&p->secret);
}

void peers_fini(struct peers *p)
{
	free(p->buckets);
	p->buckets = NULL;
}
