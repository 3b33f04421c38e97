/* Gathering of requests (`batch-delay`): while a client has more requests in flight than arrive in
 * one turn, its worker delays the turn a little, so that one turn serves several.
 *
 * It applies only to services that report their requests (SERVICE_COUNTS_REQUESTS), on workers that
 * sleep when idle (no busy polling).  Worker's thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "worker.h"

enum {
	BATCH_AUTO_NS = 30 * 1000,  /* the longest that `batch-delay = auto` waits */
	BATCH_FIRST_NS = 10 * 1000, /* the first delay; doubled each time it proves useful */
	/* Turns between two checks for waiting input (batch_input_checked()) while a delay is in
	 * force. */
	BATCH_TURNS = 8,
	/* Turns between two checks while there is no delay; each that finds no input doubles it. */
	BATCH_IDLE_TURNS = 64,
	BATCH_IDLE_TURNS_MAX = 1024,
	BATCH_COMPLETIONS = 64, /* number of completions that ends a delay early, on a ring */
	/* Requests that arrived in a turn: from this number on a delay gains nothing. */
	BATCH_ENOUGH = 16,
	BATCH_WORK = 4096, /* a request counts once more for each of these bytes of its data */
};

/* Called once, when the worker starts, before engine->init(). */
void batch_init(struct worker *w);
/* Called by engine->init() if the engine never sleeps in wait(), so that
 * there is no sleep to delay. */
void batch_off(struct worker *w);

/* Called by the engine before the worker sleeps.  True: the engine checks whether input has arrived
 * already, and reports the result by batch_input_checked(). */
static inline bool batch_check_due(struct worker *w)
{
	struct batching *g = &w->batch;

	return w->io.count == 0 && g->turns-- == 0;
}

/* Takes the result of a look and adapts the delay.  pending: input arrived while the previous
 * requests were served. */
void batch_input_checked(struct worker *w, bool pending);

/* How long this turn waits for more requests, ns.  0: not at all; always while a store has requests
 * in flight, since the wait would delay their answers. */
static inline uint64_t batch_delay(struct worker *w)
{
	uint64_t arrived = w->batch.arrived;

	w->batch.arrived = 0;
	if (w->io.count > 0 || w->batch.delay_ns == 0 || arrived >= BATCH_ENOUGH)
		return 0;
	stat_add(w->stats.gathered, 1);
	return w->batch.delay_ns;
}

/* Sleeps for ns nanoseconds; for engines whose wait for input cannot include the delay. */
void batch_sleep(struct worker *w, uint64_t ns);

/* Called by a service: one connection brought `count` requests in this turn, whose data are `bytes`
 * in all, read or written. */
static inline void batch_requests(struct worker *w, uint32_t count, uint64_t bytes)
{
	w->batch.arrived += count + bytes / BATCH_WORK;
	if (count > w->batch.most)
		w->batch.most = count;
}
