/* The timers of a worker and its connections.  Worker's thread only; see worker.h.
 *
 * No request moves the timer of its connection: a deadline that is cleared or postponed leaves it
 * where it is, and conn_due() arms it for what is left. */
#include "conn.h"
#include "engine.h"
#include "sink.h"
#include "worker.h"

/* ---- Of a connection: idle-timeout, and its service's deadline ---- */

/* Silence after which a connection is closed; 0: never. */
static uint64_t worker_idle_timeout(const struct worker *w)
{
	if (w->engine->forgets && !w->options.idle_timeout_ns)
		return WORKER_FORGET_NS;
	return w->options.idle_timeout_ns;
}

static void conn_due(struct timer *t, uint64_t now_ns)
{
	struct conn *c = container_of(t, struct conn, timer);
	struct worker *w = c->worker;
	uint64_t timeout = worker_idle_timeout(w);

	if (c->flags & CONN_CLOSING)
		return;
	if (timeout) {
		uint64_t idle_ns = (c->io_count ? now_ns : c->active_ns) + timeout;

		if (now_ns >= idle_ns) {
			conn_close(c, CONN_END_IDLE);
			return;
		}
		worker_arm(w, t, idle_ns);
	}
	if (c->deadline_ns && now_ns >= c->deadline_ns) {
		c->deadline_ns = 0;
		c->flags |= CONN_DUE;
		conn_ready(c);
	} else if (c->deadline_ns) {
		worker_arm(w, t, c->deadline_ns);
	}
}

void worker_conn_opened(struct conn *c)
{
	struct worker *w = c->worker;
	uint64_t timeout = worker_idle_timeout(w);

	c->timer.due = conn_due;
	if (timeout)
		worker_arm(w, &c->timer, c->active_ns + timeout);
	if (unlikely(w->draining)) /* it came from the queue: the timer may have run out */
		worker_arm(w, &w->drain_timer, 0);
}

/* ---- Of the worker ---- */

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

static void worker_retry_due(struct timer *t, uint64_t now_ns)
{
	(void)now_ns;
	worker_resume_accept(container_of(t, struct worker, retry_timer));
}

void worker_timers_init(struct worker *w)
{
	w->relief_timer.due = worker_relief_due;
	w->drain_timer.due = worker_drain_due;
	w->retry_timer.due = worker_retry_due;
	w->sink_timer.due = sink_due;
}
