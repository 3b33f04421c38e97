/* A timing wheel.  See deadline.h. */
#include "deadline.h"

#include "util.h"

/* How far in the future a timer may be put: half of the highest level, since the slots of a level
 * are used in a circle.  A later timer is put there and moves again when its slot is reached. */
#define DEADLINE_FAR (UINT64_C(1) << (DEADLINE_LEVELS * DEADLINE_SLOT_BITS - 1))

/* The first tick in which a timer has to run or to move down; UINT64_MAX: there are no timers. */
static uint64_t deadlines_next(const struct deadlines *d)
{
	uint64_t next = UINT64_MAX;

	for (unsigned level = 0; level < DEADLINE_LEVELS; level++) {
		unsigned bits = level * DEADLINE_SLOT_BITS;
		uint64_t at = d->tick >> bits, used = d->used[level];
		unsigned slot = at % DEADLINE_SLOTS;

		if (!used)
			continue;
		if (slot)
			used = used >> slot | used << (DEADLINE_SLOTS - slot);
		next = MIN(next, MAX((at + (unsigned)__builtin_ctzll(used)) << bits, d->tick));
	}
	return next;
}

static void deadlines_set_wake(struct deadlines *d)
{
	uint64_t next = deadlines_next(d);

	d->wake_ns = next == UINT64_MAX ? 0 : next << DEADLINE_TICK_BITS;
}

/* Puts t into its slot.  Its tick is the one after t->ns, so that no timer runs early. */
static void deadline_link(struct deadlines *d, struct timer *t)
{
	uint64_t part = t->ns & ((UINT64_C(1) << DEADLINE_TICK_BITS) - 1);
	uint64_t tick = (t->ns >> DEADLINE_TICK_BITS) + (part > 0);
	unsigned level, slot;
	struct timer **head;

	tick = MIN(MAX(tick, d->tick), d->tick + DEADLINE_FAR);
	level = (63 - (unsigned)__builtin_clzll((tick ^ d->tick) | 1)) / DEADLINE_SLOT_BITS;
	level = MIN(level, DEADLINE_LEVELS - 1U);
	slot = (tick >> level * DEADLINE_SLOT_BITS) % DEADLINE_SLOTS;
	d->used[level] |= UINT64_C(1) << slot;
	t->slot = level * DEADLINE_SLOTS + slot;
	head = &d->slots[t->slot];
	t->next = *head;
	if (t->next)
		t->next->at = &t->next;
	t->at = head;
	*head = t;
}

static void deadline_unlink(struct deadlines *d, struct timer *t)
{
	*t->at = t->next;
	if (t->next)
		t->next->at = t->at;
	t->at = NULL;
	if (!d->slots[t->slot])
		d->used[t->slot / DEADLINE_SLOTS] &= ~(UINT64_C(1) << t->slot % DEADLINE_SLOTS);
}

void deadline_set(struct deadlines *d, struct timer *t, uint64_t ns, uint64_t now_ns)
{
	if (t->at)
		deadline_unlink(d, t);
	/* The present tick may move up to now_ns only if no slot between the two has to be emptied:
	 * not if wake_ns has passed. */
	if (!d->wake_ns || now_ns < d->wake_ns)
		d->tick = MAX(d->tick, now_ns >> DEADLINE_TICK_BITS);
	t->ns = ns;
	deadline_link(d, t);
	deadlines_set_wake(d);
}

void deadline_remove(struct deadlines *d, struct timer *t)
{
	deadline_unlink(d, t);
	deadlines_set_wake(d);
}

/* Empties a slot that the present has reached: runs its due timers and moves the others down.
 * False: *max is used up. */
static bool deadlines_run_slot(struct deadlines *d, unsigned slot, uint64_t now_ns, unsigned *max)
{
	struct timer *t;

	while ((t = d->slots[slot]) != NULL) {
		if (*max == 0)
			return false;
		--*max;
		deadline_unlink(d, t);
		if (t->ns <= now_ns)
			t->due(t, now_ns);
		else
			deadline_link(d, t);
	}
	return true;
}

void deadlines_run(struct deadlines *d, uint64_t now_ns, unsigned max)
{
	uint64_t now = now_ns >> DEADLINE_TICK_BITS, next;

	while ((next = deadlines_next(d)) <= now) {
		d->tick = next;
		for (unsigned level = DEADLINE_LEVELS; level-- > 0;) {
			unsigned slot = (next >> level * DEADLINE_SLOT_BITS) % DEADLINE_SLOTS;

			if (!deadlines_run_slot(d, level * DEADLINE_SLOTS + slot, now_ns, &max)) {
				deadlines_set_wake(d);
				return;
			}
		}
	}
	d->tick = MAX(d->tick, now);
	deadlines_set_wake(d);
}
