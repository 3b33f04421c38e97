/* The timers of a worker: a hierarchical timing wheel.  The cost to arm a timer, to drop one and to
 * run a due one does not depend on their number.
 *
 * A tick is about a millisecond.  There are DEADLINE_LEVELS levels of 64 slots; one slot of a
 * level spans all slots of the level below it.  A timer is in the lowest level in which its
 * slot differs from the present one, and moves down a level when the present reaches its
 * slot.  Worker's thread only. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	DEADLINE_TICK_BITS = 20, /* ns */
	DEADLINE_SLOT_BITS = 6,
	/* The wheel spans 12 days; a later timer is put in again when its slot is reached. */
	DEADLINE_LEVELS = 5,
	DEADLINE_SLOTS = 1 << DEADLINE_SLOT_BITS,
};

/* Embedded in its owner, which sets due(), and drops the timer before its own memory is freed. */
struct timer {
	struct timer *next, **at; /* links in its slot; at NULL: not armed */
	uint64_t ns;              /* CLOCK_MONOTONIC */
	/* May arm and drop any timer, including this one, which is not armed any more. */
	void (*due)(struct timer *timer, uint64_t now_ns);
	unsigned slot;
};

/* Zeroed: no timers. */
struct deadlines {
	uint64_t wake_ns; /* the time of the next deadlines_run(), CLOCK_MONOTONIC; 0: never */
	uint64_t tick;    /* the present tick */
	uint64_t used[DEADLINE_LEVELS]; /* one bit for each slot, set while it is not empty */
	struct timer *slots[DEADLINE_LEVELS * DEADLINE_SLOTS];
};

static inline bool deadline_is_armed(const struct timer *t)
{
	return t->at != NULL;
}

/* Arms t for `ns`, whether it was armed or not. */
void deadline_set(struct deadlines *d, struct timer *t, uint64_t ns, uint64_t now_ns);

/* Has t->due() run at `ns` or within a tick after it, or earlier if t is armed for
 * earlier.  So a timer whose owner postpones it again and again stays in its slot, and
 * due() arms it for the rest. */
static inline void deadline_arm(struct deadlines *d, struct timer *t, uint64_t ns, uint64_t now_ns)
{
	if (!t->at || ns < t->ns)
		deadline_set(d, t, ns, now_ns);
}

void deadline_remove(struct deadlines *d, struct timer *t);
/* Disarms t; no error if it is not armed. */
static inline void deadline_drop(struct deadlines *d, struct timer *t)
{
	if (t->at)
		deadline_remove(d, t);
}

/* Runs the timers that are due.  It runs or moves down at most `max`; if more are due, wake_ns lies
 * in the past when it returns. */
void deadlines_run(struct deadlines *d, uint64_t now_ns, unsigned max);
