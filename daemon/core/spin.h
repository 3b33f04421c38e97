/* How long a worker spins before it sleeps (`busy-poll`): for a fixed time, or, with `auto`, for
 * SPIN_AUTO_NS as long as it has credit.
 *
 * A spin in vain, one after which the worker had to sleep, uses credit up.  A wait that was over
 * while the worker spun earns some, by its length.  So a client that asks again at once keeps the
 * worker awake, and spins in vain take one part in SPIN_PAID of the time at most.  A sleep that may
 * have been in vain earns a little, too, so that the worker tries again: it lasts longer than a
 * spin would have, by what it takes to wake the thread.  Pure; worker's thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum {
	SPIN_AUTO_NS = 50 * 1000,
	SPIN_SLEPT_NS = 2 * SPIN_AUTO_NS, /* a sleep of that length may have been in vain */
	SPIN_PAID = 8,                    /* what a wait earns, as a divisor of its length */
	SPIN_TRY = 128,                   /* the same of such a sleep */
	SPIN_CREDIT_NS = 16 * SPIN_AUTO_NS,
};

struct spin {
	uint64_t max_ns; /* 0: the worker sleeps at once */
	bool adapts;     /* `auto` */
	uint64_t credit_ns;
	/* The wait that began last: when, and for how long the worker spins in it. */
	uint64_t begun_ns, ns;
};

/* busy_poll_ns: 0: no spinning; UINT64_MAX: `auto`. */
void spin_init(struct spin *s, uint64_t busy_poll_ns);

/* A wait begins.  How long to spin; 0: sleep at once. */
uint64_t spin_begin(struct spin *s, uint64_t now_ns);
/* That wait is over.  True: the worker has spun in vain. */
bool spin_end(struct spin *s, uint64_t now_ns);
