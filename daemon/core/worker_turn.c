/* A turn of a worker, and its drain.  Worker's thread only.  See worker.h. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "conn.h"
#include "log.h"
#include "pressure.h"
#include "slices.h"
#include "worker.h"

#define NAME(name, optional, needs)  #name,
#define NEEDS(name, optional, needs) needs,
#define MASK(name, optional, needs)  | ((optional) ? FEATURE_BIT(name) : 0)
const char *const engine_feature_names[FEATURE_COUNT] = { ENGINE_FEATURES(NAME) };
const char *const engine_feature_needs[FEATURE_COUNT] = { ENGINE_FEATURES(NEEDS) };
const uint64_t engine_features_optional = UINT64_C(0) ENGINE_FEATURES(MASK);

/* ---- A turn ---- */

/* Ends the connections that were closed in this turn.  The ready list holds them and others; the
 * others are put on a new list, and run in the next turn. */
__attribute__((noinline)) static void worker_run_ended(struct worker *w)
{
	struct conn *c = w->turn.ready;

	w->turn.ready = NULL;
	w->turn.ready_tail = &w->turn.ready;
	while (c) {
		struct conn *next = c->ready_next;

		c->flags &= ~(uint32_t)CONN_READY;
		if (c->flags & CONN_CLOSING)
			conn_run(c);
		else
			conn_ready(c);
		c = next;
	}
}

static void worker_run_ready(struct worker *w)
{
	struct conn *c = w->turn.ready;
	unsigned ran = 0;

	w->turn.ready = NULL;
	w->turn.ready_tail = &w->turn.ready;
	while (c) {
		struct conn *next = c->ready_next;

		c->flags &= ~(uint32_t)CONN_READY;
		conn_run(c);
		ran++;
		c = next;
	}
	w->turn.ran = ran;
	if (unlikely(w->turn.ready))
		worker_run_ended(w);
}

/* Begins a sampled turn, and reads the clock.  With a chance of one in sixteen the next turn is
 * sampled as well, and the time between the two readings is recorded as the length of a turn: input
 * that arrives during a turn waits that long in its socket. */
__attribute__((noinline)) static void worker_begin_sample(struct worker *w)
{
	struct worker_turn *t = &w->turn;
	uint64_t now_ns = clock_ns();

	if (t->spanning)
		histogram_add(&w->stats.turn_ns, now_ns - t->now_ns, 1);
	t->now_ns = now_ns;
	t->sampling = t->timing = true;
	t->sample_random = t->sample_random * 1664525 + 1013904223; /* Numerical Recipes' LCG */
	t->spanning = !t->spanning && (t->sample_random >> 28) == 0;
	t->sample_wait =
		t->spanning ? 0
			    : (int)((t->sample_random >> 16) % (2 * w->engine->sample_turns - 1));
}

/* Samples one turn in sample_turns, at random.  It counts turns, since a choice by time would
 * favour the turn that follows a long one. */
static inline void worker_set_sampling(struct worker *w)
{
	w->turn.sampling = w->turn.timing = false;
	if (unlikely(NB_STATS && --w->turn.sample_wait < 0))
		worker_begin_sample(w);
	else
		w->turn.now_ns = w->deadlines.wake_ns ? clock_ns() : clock_coarse_ns();
}

void worker_add_hook(struct worker *w, struct worker_hook *hook)
{
	hook->next = w->turn.hooks;
	w->turn.hooks = hook;
}

void worker_drop_hook(struct worker *w, struct worker_hook *hook)
{
	struct worker_hook **at = &w->turn.hooks;

	while (*at && *at != hook)
		at = &(*at)->next;
	if (*at)
		*at = hook->next;
}

/* Rare work, kept out of worker_turn(), which skips it while no timer is armed.  A timer is armed
 * while connections wait for memory and while the worker drains. */
__attribute__((noinline)) static void worker_chores(struct worker *w)
{
	if (w->pressure.waiting)
		pressure_resume(w);
	if (w->turn.now_ns >= w->deadlines.wake_ns) {
		w->turn.now_ns = clock_ns();
		deadlines_run(&w->deadlines, w->turn.now_ns, WORKER_TURN_MAX);
	}
	if (w->drain.on && !w->accept.ended)
		worker_end_accept(w);
	if (w->accept.ended && !w->conns && !w->drain.done) {
		w->drain.done = true;
		/* Those of a connectionless engine, which sent over them until now. */
		worker_close_acceptors(w);
		w->owner->drained(w);
	}
}

/* True: a drain may close c.  It has no work left, and either its socket now belongs to another
 * worker or it was silent for WORKER_QUIET_NS. */
static bool conn_is_quiet(const struct conn *c)
{
	const struct worker *w = c->worker;
	bool given = w->accept.ended && w->engine->connectionless;
	bool silent =
		!(c->flags & CONN_LASTING) && w->turn.seen_ns >= c->active_ns + WORKER_QUIET_NS;

	return (given || silent) && !conn_has_unsent(c) && c->pinned_bytes == 0 && c->io.count == 0;
}

static void worker_drain_due(struct timer *t, uint64_t now_ns)
{
	struct worker *w = container_of(t, struct worker, drain.timer);

	if (!w->drain.on) /* without a drain the timer only wakes worker_close_all() */
		return;
	for (struct conn *c = w->conns; c; c = c->next)
		if (now_ns >= w->drain.deadline_ns || conn_is_quiet(c))
			conn_close(c, CONN_END_DRAIN);
	if (w->conns || !w->drain.done)
		worker_arm(w, t, now_ns + WORKER_QUIET_NS / 10);
}

__attribute__((noinline)) static void worker_do_due(struct worker *w)
{
	bool more = false;

	if (w->turn.due & WORKER_DUE_CALLS) {
		stat_add(w->stats.sys_other, 1);
		more = mailbox_run_some(&w->mailbox, WORKER_TURN_MAX);
	}
	slices_run(w);
	w->turn.due = (uint8_t)((more ? WORKER_DUE_CALLS : 0) |
				(w->slices.first ? WORKER_DUE_SLICES : 0));
}

void worker_wait_failed(struct worker *w, const char *call, int error)
{
	static struct log_limit limit;
	const struct timespec pause = { .tv_nsec = WORKER_RETRY_NS };

	if (error == EINTR)
		return;
	if (log_limited(&limit))
		log_listener(LOG_ERR, w->listener, "%s: %s; tried again until it succeeds", call,
			     strerror(error));
	/* The failed wait did not report the mailbox, in which a request to stop may wait. */
	w->turn.due |= WORKER_DUE_CALLS;
	clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

/* Has no stack canary, which would cost each turn some instructions: no array is on its stack, only
 * the clock's struct timespec. */
__attribute__((no_stack_protector)) void worker_turn(struct worker *w)
{
	bool block = true;

	for (struct worker_hook *hook = w->turn.hooks; unlikely(hook != NULL); hook = hook->next)
		block &= !hook->run(hook);
	block &= !w->turn.ready && !w->turn.due;
	atomic_store_explicit(&w->idle, block, memory_order_relaxed);
	w->turn.seen_ns = w->turn.now_ns;
	w->engine->wait(w, block);
	if (unlikely(w->turn.due))
		worker_do_due(w);
	worker_set_sampling(w);
	worker_run_ready(w);
	if (unlikely(w->deadlines.wake_ns))
		worker_chores(w);
	if (unlikely(worker_chunks(w) != w->limits.held_chunks))
		pressure_set_held_max(w);
}

void worker_turn_init(struct worker *w)
{
	w->turn.ready_tail = &w->turn.ready;
	w->turn.now_ns = clock_ns();
	w->drain.timer.due = worker_drain_due;
}
