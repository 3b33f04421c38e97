/* The rounds of visits: in which order listeners are visited, and when there have been enough. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "measure.h"

enum {
	ROUNDS_MAX = 1000,
	ROUNDS_UNTIMED_MAX = 100, /* unless the user gives a time or a number */
	ROUNDS_TIME_MS = 60 * 1000
};

struct rounds {
	unsigned repeat;  /* make exactly this many; 0: until rounds_enough() */
	bool seeded;      /* `seed` is the user's */
	uint64_t time_ns; /* after which no further round begins; without repeat */
	unsigned most;    /* no more are made; 0: ROUNDS_MAX */
	unsigned alone;   /* rounds, where only one listener is visited and nothing is compared */
	unsigned comparisons; /* listeners less one, of all points together */
	/* Set by rounds_begin() and rounds_enough(). */
	uint64_t seed, start_ns, took_ns;
	unsigned done, next_look;
	double half_width; /* the widest interval's, as a relative difference; NaN: none is known */
};

void rounds_begin(struct rounds *r);

/* Warns if the least rounds do not fit into the time.  visit_ns: how long a visit takes, at least.
 */
void rounds_foretell(const struct rounds *r, unsigned comparisons, unsigned visits,
		     uint64_t visit_ns);

/* The order of round `round`, from 0 on: random in each even round, and in the odd round after it
 * the reverse.  So neither the first place nor a drift of the machine favours a listener. */
void rounds_order(const struct rounds *r, unsigned round, unsigned count, unsigned *ret_order);

/* To be called after each round, with all rows in m, sorted by their names.  True: no further round
 * is needed, since each interval is narrow enough, or since the time or the number of rounds is
 * over. The decision uses only the widths of the intervals, never their position: rounds that end
 * as soon as a difference shows would find differences that are chance. */
bool rounds_enough(struct rounds *r, const struct measures *m);

/* The sentence on why the rounds ended, to be freed; NULL: the user asked for their number. */
char *rounds_text(const struct rounds *r, double within);
