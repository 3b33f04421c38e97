/* When bulk receivers' input comes in larger pieces.  See bulk.h.
 *
 * Only one bulk receiver at a time has a mark.  Several do not need it: while the worker reads from
 * one of them, the input of the others collects in their sockets.  With a mark each, the worker
 * would sleep although input of all of them waits, until one of them has BULK_MARK bytes. */
#include "bulk.h"

#include <sys/socket.h>

#define BULK_NS (BULK_MS * (uint64_t)NS_PER_MS)

static void bulk_set_mark(struct conn *c, int bytes)
{
	stat_add(c->worker->stats.sys_other, 1);
	setsockopt(c->fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes));
}

void bulk_forget(struct worker *w)
{
	w->bulk.busy = NULL;
	deadline_drop(&w->deadlines, &w->bulk.timer);
}

void bulk_end(struct conn *c)
{
	if (!(c->flags & CONN_RCVLOWAT))
		return;
	c->flags &= ~(uint32_t)CONN_RCVLOWAT;
	bulk_forget(c->worker);
	/* A lower mark wakes the worker for the bytes that wait in the socket. */
	bulk_set_mark(c, 1);
}

static void bulk_due(struct timer *t, uint64_t now_ns)
{
	struct worker *w = container_of(t, struct worker, bulk.timer);
	uint64_t silent_ns = w->bulk.busy->active_ns + BULK_NS;

	if (now_ns < silent_ns)
		worker_arm(w, t, silent_ns);
	else
		bulk_end(w->bulk.busy);
}

static void bulk_raise(struct conn *c)
{
	c->flags |= CONN_RCVLOWAT;
	bulk_set_mark(c, BULK_MARK);
	c->worker->bulk.timer.due = bulk_due;
	worker_arm(c->worker, &c->worker->bulk.timer, c->worker->turn.now_ns + BULK_NS);
}

/* Called when c has brought at least BULK_PIECE in this turn.  A receiver becomes `busy` by that,
 * and takes the place of another one; its mark is raised once it alone has brought BULK_ALONE. */
static void bulk_is_busy(struct conn *c)
{
	struct worker *w = c->worker;

	if (w->bulk.busy != c) {
		if (w->bulk.busy)
			bulk_end(w->bulk.busy);
		w->bulk.busy = c;
		w->bulk.mark_bytes = c->bytes_in + BULK_ALONE;
	} else if (c->bytes_in >= w->bulk.mark_bytes && !(c->flags & CONN_RCVLOWAT)) {
		bulk_raise(c);
	}
}

struct bulk_options {
	uint64_t receive; /* index in receive_words */
};
enum { RECEIVE_COPY, RECEIVE_DROP };
static const char *const receive_words[] = { "copy", "drop", NULL };

static const struct key bulk_keys[] = {
	{ "receive", "copy", "copy bulk input, as a server that reads it does, or have TCP drop it",
	  KEY_FIELD(struct bulk_options, receive), .type = KEY_CHOICE, .streams = true,
	  .plain = true, .words = receive_words },
};
const struct key_table bulk_key_table = KEY_TABLE(bulk_keys, struct bulk_options);

static bool bulk_wants_drop(const struct worker *w)
{
	const struct bulk_options *o = options_of(&w->options, &bulk_key_table);

	return o->receive == RECEIVE_DROP;
}

void bulk_drop(struct conn *c)
{
	const struct engine *engine = c->worker->engine;

	if ((c->flags & CONN_DROPS) || !(engine->features & FEATURE_BIT(drop)))
		return;
	c->flags |= CONN_DROPS;
	worker_feature(c->worker, FEATURE_drop);
	if (c->flags & (CONN_FRESH | CONN_RECV_OFF | CONN_EOF | CONN_CLOSING))
		return; /* no receive is armed: the next one takes the flag */
	engine->recv(c, false);
	engine->recv(c, true);
}

void bulk_take(struct conn *c)
{
	struct worker *w = c->worker;

	if (unlikely(bulk_wants_drop(w)))
		bulk_drop(c);
	if (unlikely(c->rx.bytes >= BULK_PIECE) && !w->engine->messages &&
	    !(c->flags & (CONN_EOF | CONN_CLOSING))) {
		if (!(c->flags & CONN_BULK)) {
			c->flags |= CONN_BULK;
			c->bulk_turn = (uint32_t)stat_load(w->stats.turns);
		}
		if (worker_wants(w, FEATURE_rcvlowat))
			bulk_is_busy(c);
	}
	bufq_clear(&w->pool, &c->rx);
}

/* Begins the queue of a turn.  The number of receivers of the last turn is the best estimate for
 * this one; it counts only if the last turn was the one before. */
static void bulk_begin_turn(struct worker *w, uint64_t turn)
{
	struct bulk_queue *q = &w->bulk.queue;
	bool continues = q->turn + 1 == turn;
	unsigned count = continues ? MAX(q->count, 1U) : 1;

	*q = (struct bulk_queue){
		.turn = turn,
		.left = MIN(worker_share(w) * count, (size_t)WORKER_TURN_BYTES),
		.first = continues ? q->first_next : 0,
	};
}

size_t bulk_share(struct conn *c)
{
	struct bulk_queue *q = &c->worker->bulk.queue;
	uint64_t turn = stat_load(c->worker->stats.turns);
	uint32_t waited = (uint32_t)turn - c->bulk_turn;

	if (q->turn != turn)
		bulk_begin_turn(c->worker, turn);
	q->count++;
	if (q->left == 0 || waited < q->first) {
		q->first_next = MAX(q->first_next, waited + 1);
		conn_ready(c);
		return 0;
	}
	c->bulk_turn = (uint32_t)turn;
	return q->left;
}

void bulk_received(struct conn *c, size_t bytes)
{
	struct bulk_queue *q = &c->worker->bulk.queue;

	q->left -= MIN(q->left, bytes);
}
