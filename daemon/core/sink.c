/* When sinks' input comes in larger pieces.  See sink.h.
 *
 * A mark is only for one sink at a time: several bring larger pieces by themselves while others are
 * read, and with a mark each they wait for one another's clients. */
#include "sink.h"

#include <sys/socket.h>

#define SINK_NS (SINK_MS * (uint64_t)NS_PER_MS)

static void sink_set_mark(struct conn *c, int bytes)
{
	stat_add(c->worker->stats.sys_other, 1);
	setsockopt(c->fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes));
}

void sink_forget(struct worker *w)
{
	w->sinks.busy = NULL;
	deadline_drop(&w->deadlines, &w->sinks.timer);
}

void sink_settle(struct conn *c)
{
	if (!(c->flags & CONN_COARSE))
		return;
	c->flags &= ~(uint32_t)CONN_COARSE;
	sink_forget(c->worker);
	sink_set_mark(c, 1); /* wakes us for what is there */
}

static void sink_due(struct timer *t, uint64_t now_ns)
{
	struct worker *w = container_of(t, struct worker, sinks.timer);
	uint64_t silent_ns = w->sinks.busy->active_ns + SINK_NS;

	if (now_ns < silent_ns)
		worker_arm(w, t, silent_ns);
	else
		sink_settle(w->sinks.busy);
}

static void sink_raise(struct conn *c)
{
	c->flags |= CONN_COARSE;
	sink_set_mark(c, SINK_MARK);
	c->worker->sinks.timer.due = sink_due;
	worker_arm(c->worker, &c->worker->sinks.timer, c->worker->turn.now_ns + SINK_NS);
}

/* c has brought much in this turn. */
static void sink_is_busy(struct conn *c)
{
	struct worker *w = c->worker;

	if (w->sinks.busy != c) {
		if (w->sinks.busy)
			sink_settle(w->sinks.busy);
		w->sinks.busy = c;
		w->sinks.mark_bytes = c->bytes_in + SINK_ALONE;
	} else if (c->bytes_in >= w->sinks.mark_bytes && !(c->flags & CONN_COARSE)) {
		sink_raise(c);
	}
}

void sink_take(struct conn *c)
{
	struct worker *w = c->worker;

	if (unlikely(c->rx.bytes >= SINK_PIECE) && !w->engine->messages &&
	    !(c->flags & (CONN_EOF | CONN_CLOSING))) {
		if (!(c->flags & CONN_SINK)) {
			c->flags |= CONN_SINK;
			c->sink_turn = (uint32_t)stat_load(w->stats.turns);
		}
		if (worker_wants(w, FEATURE_rcvlowat))
			sink_is_busy(c);
	}
	bufq_clear(&w->pool, &c->rx);
}

static void sinks_begin_turn(struct worker *w, uint64_t turn)
{
	struct sink_queue *q = &w->sinks.queue;
	bool goes_on = q->turn + 1 == turn;
	unsigned count = goes_on ? MAX(q->count, 1U) : 1;

	*q = (struct sink_queue){
		.turn = turn,
		.left = MIN(worker_share(w) * count, (size_t)WORKER_TURN_BYTES),
		.first = goes_on ? q->first_next : 0,
	};
}

size_t sink_share(struct conn *c)
{
	struct sink_queue *q = &c->worker->sinks.queue;
	uint64_t turn = stat_load(c->worker->stats.turns);
	uint32_t waited = (uint32_t)turn - c->sink_turn;

	if (q->turn != turn)
		sinks_begin_turn(c->worker, turn);
	q->count++;
	if (q->left == 0 || waited < q->first) {
		q->first_next = MAX(q->first_next, waited + 1);
		conn_ready(c);
		return 0;
	}
	c->sink_turn = (uint32_t)turn;
	return q->left;
}

void sink_received(struct conn *c, size_t bytes)
{
	struct sink_queue *q = &c->worker->sinks.queue;

	q->left -= MIN(q->left, bytes);
}
