/* Operations of a service: how many, and how long a sample of them takes.  Worker's thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "conn.h"

/* Starts the clock of `count` operations at start_ns.  If a clock runs already, it now covers these
 * operations as well: replies that the kernel takes together become as many samples of one time.
 * An operation of another kind than the first one is not sampled, as each kind has its own
 * histogram.  Inline, because a call would have echo_run() save registers for each request. */
static inline void conn_op_sample(struct conn *c, unsigned operation, uint64_t start_ns,
				  unsigned count)
{
	if (!c->op_start_ns) {
		c->op_start_ns = start_ns;
		c->op_index = (uint8_t)operation;
		c->op_count = 0;
	}
	if (c->op_index == operation)
		c->op_count += count;
}

/* Counts an operation of the service (index in service->operations).  On sampled turns it starts
 * the clock, which conn_sent() stops when all of tx is with the kernel: the latency runs from the
 * moment the worker held the request's bytes to the moment the kernel had taken the reply. */
static inline void conn_op_begin(struct conn *c, unsigned operation)
{
	struct worker *w = c->worker;

	stat_add(w->stats.operations[operation].count, 1);
	if (unlikely(w->turn.sampling))
		conn_op_sample(c, operation, w->turn.now_ns, 1);
}

/* conn_op_begin() of `count` operations at once, one of which is timed. */
static inline void conn_op_begin_some(struct conn *c, unsigned operation, uint64_t count)
{
	conn_op_begin(c, operation);
	stat_add(c->worker->stats.operations[operation].count, count - 1);
}

/* For services that do not parse: counts each message in rx as an operation, or all of a byte
 * stream's rx as one. */
static inline void conn_op_begin_all(struct conn *c, unsigned operation)
{
	struct worker *w = c->worker;

	conn_op_begin(c, operation);
	if (unlikely(c->rx.views > 1) && w->engine->messages) {
		unsigned more = (unsigned)c->rx.views - 1;

		stat_add(w->stats.operations[operation].count, more);
		if (w->turn.sampling)
			conn_op_sample(c, operation, w->turn.now_ns, more);
	}
}

/* conn_op_begin() for services that answer later, called when the reply has been put into tx.
 * start_ns: w->turn.now_ns of the turn in which the request arrived if w->turn.sampling was set
 * then, else 0 (not timed). */
static inline void conn_op_reply(struct conn *c, unsigned operation, uint64_t start_ns)
{
	struct worker *w = c->worker;

	stat_add(w->stats.operations[operation].count, 1);
	if (unlikely(start_ns)) {
		conn_op_sample(c, operation, start_ns, 1);
		w->turn.timing = true;
	}
}

/* Stops the clock of an operation that has no reply. */
void conn_op_end(struct conn *c);
