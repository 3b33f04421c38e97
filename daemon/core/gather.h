/* Gathering of requests (`batch-delay`): while a client has more requests in flight than arrive in
 * one turn, its worker delays the turn a little, so that one turn serves several.
 *
 * Only for services that report their requests (SERVICE_COUNTS_REQUESTS), and only on workers that
 * sleep when idle (no busy polling).  Worker's thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "worker.h"

enum {
	GATHER_AUTO_NS = 30 * 1000,  /* the longest that `batch-delay = auto` waits */
	GATHER_FIRST_NS = 10 * 1000, /* the first delay; doubled each time it proves useful */
	GATHER_TURNS = 8,            /* between two looks (gather_look()) while requests gather */
	/* ... while they do not; doubled by each look that finds nothing. */
	GATHER_IDLE_TURNS = 64,
	GATHER_IDLE_TURNS_MAX = 1024,
	GATHER_COMPLETIONS = 64, /* number of completions that ends a delay early, on a ring */
	GATHER_ENOUGH = 16,      /* requests that arrived in a turn and make a delay pointless */
	GATHER_WORK = 4096, /* a request counts once more for each of these bytes of its data */
};

/* Called once, when the worker starts. */
void gather_init(struct worker *w);

/* Called by the engine before the worker sleeps.  True: the engine is to check whether input is
 * there already, and to report it by gather_look(). */
static inline bool gather_must_look(struct worker *w)
{
	struct gather *g = &w->gather;

	return w->io.count == 0 && g->turns-- == 0;
}

/* pending: input arrived while the previous requests were served. */
void gather_look(struct worker *w, bool pending);

/* How long this turn waits for more requests, ns; 0: not at all, as while a store has requests in
 * flight: their answers are not delayed. */
static inline uint64_t gather_delay(struct worker *w)
{
	uint64_t arrived = w->gather.arrived;

	w->gather.arrived = 0;
	if (w->io.count > 0 || w->gather.delay_ns == 0 || arrived >= GATHER_ENOUGH)
		return 0;
	stat_add(w->stats.gathered, 1);
	return w->gather.delay_ns;
}

/* Sleeps for ns nanoseconds; for engines whose wait for input cannot include the delay. */
void gather_sleep(struct worker *w, uint64_t ns);

/* Called by a service: one connection brought `count` requests in this turn, whose data are `bytes`
 * in all, read or written. */
static inline void gather_requests(struct worker *w, uint32_t count, uint64_t bytes)
{
	w->gather.arrived += count + bytes / GATHER_WORK;
	if (count > w->gather.most)
		w->gather.most = count;
}
