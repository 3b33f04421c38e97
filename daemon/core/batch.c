/* Adapts how long a worker delays a turn so that more requests arrive.  See batch.h.
 *
 * A delay must not slow down clients that send one request at a time.  Such a client has nothing in
 * flight once it was answered, so no input can be waiting when its worker is about to sleep.  If
 * input is waiting, and a connection brought several requests in the turn, its client has more
 * requests in flight than arrive in one turn: each of them takes two turns or more, and a delay of
 * one turn is at most half of its latency.
 *
 * So every few turns, before it sleeps, the engine checks whether input is waiting, and calls
 * batch_input_checked().  The delay grows with each check that finds both conditions and shrinks
 * with each that does not.  While there is no delay the checks become rare. */
#include "batch.h"

#include <sys/prctl.h>
#include <time.h>

#include "util.h"

void batch_init(struct worker *w)
{
	const struct worker_options *o = &w->options;
	struct batching *g = &w->batch;

	g->max_ns = o->batch_delay_ns == UINT64_MAX ? BATCH_AUTO_NS : o->batch_delay_ns;
	g->on = w->service && (w->service->flags & SERVICE_COUNTS_REQUESTS) && g->max_ns > 0 &&
		!o->busy_poll_ns;
	g->turns = g->patience = BATCH_IDLE_TURNS;
	/* The kernel adds a thread's timer slack, 50 us by default, to each
	 * sleep: 30 us would become 80. */
	if (g->on)
		prctl(PR_SET_TIMERSLACK, NS_PER_US);
}

void batch_off(struct worker *w)
{
	if (w->batch.on)
		prctl(PR_SET_TIMERSLACK, 0); /* the default */
	w->batch.on = false;
}

void batch_input_checked(struct worker *w, bool pending)
{
	struct batching *g = &w->batch;
	uint64_t first = MIN(g->max_ns, (uint64_t)BATCH_FIRST_NS);

	if (pending && (g->delay_ns == 0 || g->most > 1)) {
		if (g->delay_ns > 0)
			g->patience = BATCH_IDLE_TURNS;
		g->delay_ns = MIN(MAX(2 * g->delay_ns, first), g->max_ns);
	} else {
		g->delay_ns = g->delay_ns > first ? g->delay_ns / 2 : 0;
	}
	g->turns = BATCH_TURNS;
	if (g->delay_ns == 0) {
		g->turns = g->patience;
		g->patience = MIN(2 * g->patience, (uint32_t)BATCH_IDLE_TURNS_MAX);
	}
	g->most = 0;
	atomic_store_explicit(&w->stats.batch_delay_ns, g->delay_ns, memory_order_relaxed);
}

void batch_sleep(struct worker *w, uint64_t ns)
{
	struct timespec ts = { .tv_nsec = (long)ns };

	stat_add(w->stats.sys_other, 1);
	nanosleep(&ts, NULL);
}
