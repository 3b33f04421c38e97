/* Requests that gather: while a client has more requests under way than a turn brings, its worker
 * waits a little before a turn, so that the turn serves several for the price of one.
 *
 * Only a service that tells of its requests (service->requests) has them gathered, and only a
 * worker that sleeps when it has nothing to do.  Worker's thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "worker.h"

enum {
	GATHER_AUTO_NS = 30 * 1000,  /* the longest that `batch-delay = auto` waits */
	GATHER_FIRST_NS = 10 * 1000, /* the first delay; each that is worth it is doubled */
	GATHER_TURNS = 8,            /* between two looks while requests gather */
	GATHER_IDLE_TURNS = 64,      /* ... while they do not; each vain look doubles it */
	GATHER_IDLE_TURNS_MAX = 1024,
	GATHER_COMPLETIONS = 64, /* that end a delay on a ring */
	GATHER_ENOUGH = 16,      /* requests of a turn: the next one brings no fewer by itself */
};

/* Once, when the worker starts. */
void gather_init(struct worker *w);

/* Before the worker sleeps: is it the turn to look whether input is there already?  Then the engine
 * says so with gather_look(). */
static inline bool gather_must_look(struct worker *w)
{
	struct gather *g = &w->gather;

	return w->io_count == 0 && g->turns-- == 0;
}

/* `pending`: what was served left input that came meanwhile. */
void gather_look(struct worker *w, bool pending);

/* How long this turn waits for more requests, ns; 0: not at all.  What is with a store is answered
 * as soon as it is done. */
static inline uint64_t gather_delay(struct worker *w)
{
	uint32_t arrived = w->gather.arrived;

	w->gather.arrived = 0;
	if (w->io_count > 0 || w->gather.delay_ns == 0 || arrived >= GATHER_ENOUGH)
		return 0;
	stat_add(w->stats.gathered, 1);
	return w->gather.delay_ns;
}

/* Sleeps that long, where the kernel cannot do so while it waits for input. */
void gather_sleep(struct worker *w, uint64_t ns);

/* A service: one connection has brought so many requests in this turn. */
static inline void gather_requests(struct worker *w, uint32_t count)
{
	w->gather.arrived += count;
	if (count > w->gather.most)
		w->gather.most = count;
}
