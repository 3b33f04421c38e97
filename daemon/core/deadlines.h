/* The timers of a worker: a hierarchical timing wheel.  To arm one, to drop one and to run one that
 * is due costs the same, however many there are.
 *
 * A tick is about a millisecond, and a slot of a level is as long as all slots of the level below
 * it.  A timer is in the lowest level whose slots tell its tick from the present one, and moves
 * down when the present reaches its slot.  Worker's thread only. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	DEADLINE_TICK_BITS = 20, /* ns */
	DEADLINE_SLOT_BITS = 6,
	DEADLINE_LEVELS = 5, /* 12 days; later timers are put in again meanwhile */
	DEADLINE_SLOTS = 1 << DEADLINE_SLOT_BITS,
};

/* Embedded in its owner, which sets due() and drops it before it goes. */
struct timer {
	struct timer *next, **at; /* at: NULL: not armed */
	uint64_t ns;              /* CLOCK_MONOTONIC */
	/* May arm and drop any timer, also its own, which is not armed any more. */
	void (*due)(struct timer *timer, uint64_t now_ns);
	unsigned slot;
};

/* Zeroed: no timers. */
struct deadlines {
	uint64_t wake_ns;               /* when deadlines_run() is to be called next; 0: never */
	uint64_t tick;                  /* the present one */
	uint64_t used[DEADLINE_LEVELS]; /* a bit for each slot that is not empty */
	struct timer *slots[DEADLINE_LEVELS * DEADLINE_SLOTS];
};

static inline bool deadline_is_armed(const struct timer *t)
{
	return t->at != NULL;
}

/* Whether it is armed or not. */
void deadline_set(struct deadlines *d, struct timer *t, uint64_t ns, uint64_t now_ns);

/* Has t->due() run at `ns` or within a tick after it, or earlier if it is armed for earlier: so one
 * whose owner postpones it again and again stays where it is, and due() arms it for what is left.
 */
static inline void deadline_arm(struct deadlines *d, struct timer *t, uint64_t ns, uint64_t now_ns)
{
	if (!t->at || ns < t->ns)
		deadline_set(d, t, ns, now_ns);
}

void deadline_remove(struct deadlines *d, struct timer *t);
/* No error if it is not armed. */
static inline void deadline_drop(struct deadlines *d, struct timer *t)
{
	if (t->at)
		deadline_remove(d, t);
}

/* Runs what is due.  At most `max` timers are run or moved down; if there are more, wake_ns has
 * passed already when it returns. */
void deadlines_run(struct deadlines *d, uint64_t now_ns, unsigned max);
