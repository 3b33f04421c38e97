/* A turn of a worker, and its drain.  Worker's thread only.  See worker.h. */ #include "conn.h"
#include "slices.h"
#include "worker.h"

	const char *const engine_feature_names[FEATURE_COUNT] = {
#define X(name) #name,
		ENGINE_FEATURES(X)
#undef X
	};

/* ---- A turn ---- */

/* Those that ended in this turn: nothing is received for them nor sent, so they need not wait. */
__attribute__((noinline)) static void worker_run_ended(struct worker *w)
{
	struct conn *c = w->ready;

	w->ready = NULL;
	w->ready_tail = &w->ready;
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
	struct conn *c = w->ready;
	unsigned ran = 0;

	w->ready = NULL;
	w->ready_tail = &w->ready;
	while (c) {
		struct conn *next = c->ready_next;

		c->flags &= ~(uint32_t)CONN_READY;
		conn_run(c);
		ran++;
		c = next;
	}
	w->ran = ran;
	if (unlikely(w->ready))
		worker_run_ended(w);
}

/* One turn in sample_turns, at random.  Counted in turns: a choice by time would favour the turn
 * that follows a long one. */
static void worker_set_sampling(struct worker *w)
{
	w->sampling = w->timing = false;
	if (likely(!NB_STATS || --w->sample_wait >= 0))
		return;
	w->sampling = w->timing = true;
	w->sample_random = w->sample_random * 1664525 + 1013904223; /* Numerical Recipes' LCG */
	w->sample_wait = (int)((w->sample_random >> 16) % (2 * w->engine->sample_turns - 1));
}

void worker_add_hook(struct worker *w, struct worker_hook *hook)
{
	hook->next = w->hooks;
	w->hooks = hook;
}

void worker_drop_hook(struct worker *w, struct worker_hook *hook)
{
	struct worker_hook **at = &w->hooks;

	while (*at && *at != hook)
		at = &(*at)->next;
	if (*at)
		*at = hook->next;
}

/* Rare work, kept out of worker_turn(), which does without while no timer is armed: one is while
 * connections are starved or the worker drains. */
__attribute__((noinline)) static void worker_chores(struct worker *w)
{
	if (w->starved)
		worker_feed_starved(w);
	if (w->now_ns >= w->deadlines.wake_ns) {
		w->now_ns = clock_ns();
		deadlines_run(&w->deadlines, w->now_ns, WORKER_TURN_MAX);
	}
	if (w->draining && !w->accept_ended)
		worker_end_accept(w);
	if (w->accept_ended && !w->conns && !w->drained) {
		w->drained = true;
		w->owner->drained(w);
	}
}

/* True: a drain may close c, as nothing is left to do for it and either its socket now belongs to
 * another worker or it was silent for WORKER_QUIET_NS. */
static bool conn_is_quiet(const struct conn *c, uint64_t now_ns)
{
	bool given = c->worker->accept_ended && c->worker->engine->connectionless;

	return (given ||
		(!(c->flags & CONN_LASTING) && now_ns - c->active_ns >= WORKER_QUIET_NS)) &&
	       !conn_owes(c) && c->lent_bytes == 0 && c->io_count == 0;
}

static void worker_drain_due(struct timer *t, uint64_t now_ns)
{
	struct worker *w = container_of(t, struct worker, drain_timer);

	if (!w->draining) /* it only woke worker_close_all() */
		return;
	for (struct conn *c = w->conns; c; c = c->next)
		if (now_ns >= w->drain_deadline_ns || conn_is_quiet(c, now_ns))
			conn_close(c, CONN_END_DRAIN);
	if (w->conns || !w->drained)
		worker_arm(w, t, now_ns + WORKER_QUIET_NS / 10);
}

__attribute__((noinline)) static void worker_do_due(struct worker *w)
{
	bool more = false;

	if (w->due & WORKER_DUE_CALLS) {
		stat_add(w->stats.sys_other, 1);
		more = mailbox_run_some(&w->mailbox, WORKER_TURN_MAX);
	}
	slices_run(w);
	w->due = (uint8_t)((more ? WORKER_DUE_CALLS : 0) | (w->slices ? WORKER_DUE_SLICES : 0));
}

/* Without a canary, as its stack holds no array, only the clock's struct timespec. */
__attribute__((no_stack_protector)) void worker_turn(struct worker *w)
{
	bool block = true;

	for (struct worker_hook *hook = w->hooks; unlikely(hook != NULL); hook = hook->next)
		block &= !hook->run(hook);
	block &= !w->ready && !w->due;
	atomic_store_explicit(&w->idle, block, memory_order_relaxed);
	w->engine->wait(w, block);
	if (unlikely(w->due))
		worker_do_due(w);
	worker_set_sampling(w);
	w->now_ns = w->sampling || w->deadlines.wake_ns ? clock_ns() : clock_coarse_ns();
	worker_run_ready(w);
	if (unlikely(w->deadlines.wake_ns))
		worker_chores(w);
	if (unlikely(worker_chunks(w) != w->held_chunks))
		worker_set_held_max(w);
}

void worker_turn_init(struct worker *w)
{
	w->ready_tail = &w->ready;
	w->now_ns = clock_ns();
	w->drain_timer.due = worker_drain_due;
}
