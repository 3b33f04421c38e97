/* How long a worker spins before it sleeps (`busy-poll`): for a fixed time or, with `auto`, for
 * SPIN_AUTO_NS as long as it has credit.
 *
 * A wait is what a worker does between two turns: it spins, then sleeps.  With `auto` a wait
 * that ended while the worker spun earns credit, 1/SPIN_PAID of its length.  A spin that
 * found no input costs as much credit as it lasted.  So clients that send again at once keep
 * the worker awake, and useless spins take a small part of the time of useful ones.
 *
 * A worker without credit sleeps at once.  It would never spin again if only spins earned credit,
 * so a short sleep earns 1/SPIN_TRY of its length: had the worker spun, that wait might have ended
 * within the spin.  A sleep counts as short up to SPIN_SLEPT_NS, which is more than SPIN_AUTO_NS,
 * because waking a thread takes time.  Pure; worker's thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum {
	SPIN_AUTO_NS = 50 * 1000,
	SPIN_SLEPT_NS = 2 * SPIN_AUTO_NS, /* a sleep up to this length counts as short */
	/* a wait that ended in the spin earns this part of its length */
	SPIN_PAID = 8,
	SPIN_TRY = 128, /* a short sleep earns this part of its length */
	SPIN_CREDIT_NS = 16 * SPIN_AUTO_NS,
};

struct spin {
	uint64_t max_ns; /* 0: the worker sleeps at once */
	bool adapts;     /* `auto` */
	uint64_t credit_ns;
	/* The current or last wait: when it began, and for how long the worker spins in it. */
	uint64_t begun_ns, ns;
};

/* busy_poll_ns: 0: no spinning; UINT64_MAX: `auto`. */
void spin_init(struct spin *s, uint64_t busy_poll_ns);

/* A wait begins.  How long to spin; 0: sleep at once. */
uint64_t spin_begin(struct spin *s, uint64_t now_ns);
/* The wait is over.  True: the worker spun and found no input. */
bool spin_end(struct spin *s, uint64_t now_ns);
