/* A table of counts by address.  See tally.h. */
#include "tally.h"

#include <stdlib.h>
#include <string.h>

int tally_init(struct tally *t)
{
	return siphash_key_init(&t->key);
}

void tally_fini(struct tally *t)
{
	for (unsigned i = 0; i < TALLY_BUCKETS; i++)
		while (t->buckets[i]) {
			struct tally_entry *e = t->buckets[i];

			t->buckets[i] = e->next;
			free(e);
		}
}

static struct tally_entry **tally_bucket(struct tally *t, const struct in6_addr *address)
{
	uint64_t words[2];

	memcpy(words, address, sizeof(words));
	return &t->buckets[siphash(&t->key, words, 2) % TALLY_BUCKETS];
}

struct tally_entry *tally_add(struct tally *t, const struct in6_addr *address)
{
	struct tally_entry **bucket = tally_bucket(t, address), *e = *bucket;

	while (e && memcmp(&e->address, address, sizeof(*address)) != 0)
		e = e->next;
	if (!e) {
		e = malloc(sizeof(*e));
		if (!e)
			return NULL;
		*e = (struct tally_entry){ .next = *bucket, .address = *address };
		*bucket = e;
	}
	e->count++;
	return e;
}

void tally_drop(struct tally *t, struct tally_entry *entry)
{
	struct tally_entry **at;

	if (--entry->count > 0)
		return;
	at = tally_bucket(t, &entry->address);
	while (*at != entry)
		at = &(*at)->next;
	*at = entry->next;
	free(entry);
}
