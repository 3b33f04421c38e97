/* Answers that are held back until they are due.  See delay.h. */
#include "delay.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "conn.h"
#include "conn_op.h"
#include "engine.h"
#include "service.h"
#include "worker.h"

/* The clock of operations, which is kept with the output that stops it. */
struct delay_op {
	uint64_t start_ns; /* 0: none is timed */
	uint32_t count;
	uint8_t index;
};

/* The output of one run(). */
struct delay_mark {
	struct delay_mark *next;
	uint64_t due_ns;
	size_t amount;
	struct delay_op op;
};

/* The output that a connection holds back; conn.delayed.  Made by its first
 * run(), freed when it closes. */
struct delayed {
	struct conn *conn;
	struct bufq held; /* empty while the service runs */
	struct delay_mark *first, *last;
	size_t marked;     /* the amount of all marks */
	unsigned count;    /* of marks */
	unsigned place;    /* in the heap, plus 1; 0: not in it */
	uint64_t released; /* of a byte stream: bytes that became due since the connection began */
};

struct delay {
	/* The worker uses these instead of the real ones. */
	struct service service;
	struct engine engine;
	const struct service *real_service;
	const struct engine *real_engine;
	/* The connections that hold output back, a heap by the time at which the first of it is
	 * due.  It has room for all connections, so that none needs memory to join. */
	struct delayed **heap;
	unsigned count, capacity, conns;
	uint64_t random;
};

/* ---- Due times ---- */

static uint64_t delay_draw(const struct delay_options *o, uint64_t random)
{
	/* in (0, 1] */
	double part = (double)((random >> 11) + 1) * 0x1p-53;

	switch ((enum delay_kind)o->kind) {
	case DELAY_UNIFORM:
		return o->ns[0] + (uint64_t)((double)(o->ns[1] - o->ns[0]) * part);
	case DELAY_EXPONENTIAL:
		return MIN((uint64_t)(-log(part) * (double)o->ns[0]), DELAY_CUT * o->ns[0]);
	case DELAY_CONSTANT:
		break;
	}
	return o->ns[0];
}

uint64_t delay_due_ns(const struct worker_options *options, uint64_t now_ns, uint64_t random)
{
	const struct stall_options *stall = &options->stall;
	uint64_t due_ns = now_ns + delay_draw(&options->delay, random);
	uint64_t at = stall->ns ? due_ns % stall->every_ns : 0;

	return at < stall->ns ? due_ns + stall->ns - at : due_ns;
}

/* splitmix64 */
static uint64_t delay_random(struct delay *s)
{
	uint64_t z = s->random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* ---- Connections by the time at which they are due ---- */

static uint64_t heap_ns(const struct delay *s, unsigned place)
{
	return s->heap[place - 1]->first->due_ns;
}

static void heap_put(struct delay *s, unsigned place, struct delayed *d)
{
	s->heap[place - 1] = d;
	d->place = place;
}

static void heap_swap(struct delay *s, unsigned a, unsigned b)
{
	struct delayed *d = s->heap[a - 1];

	heap_put(s, a, s->heap[b - 1]);
	heap_put(s, b, d);
}

static void heap_settle(struct delay *s, unsigned place)
{
	unsigned least;

	for (; place > 1 && heap_ns(s, place) < heap_ns(s, place / 2); place /= 2)
		heap_swap(s, place, place / 2);
	for (;; place = least) {
		least = place;
		for (unsigned i = 2 * place; i <= MIN(2 * place + 1, s->count); i++)
			if (heap_ns(s, i) < heap_ns(s, least))
				least = i;
		if (least == place)
			return;
		heap_swap(s, place, least);
	}
}

static void heap_remove(struct delay *s, struct delayed *d)
{
	unsigned place = d->place;

	if (!place)
		return;
	d->place = 0;
	if (place != s->count) {
		heap_put(s, place, s->heap[s->count - 1]);
		s->count--;
		heap_settle(s, place);
	} else {
		s->count--;
	}
}

static void heap_add(struct delay *s, struct delayed *d)
{
	heap_put(s, ++s->count, d);
	heap_settle(s, s->count);
}

/* The worker wakes when the first of all marks is due. */
static void delay_schedule(struct worker *w)
{
	const struct delay *s = w->delay;

	deadlines_set_exact(&w->deadlines, s->count ? heap_ns(s, 1) : 0);
}

/* ---- Operations ---- */

static struct delay_op op_take(struct conn *c)
{
	struct delay_op op = { c->op_start_ns, c->op_count, c->op_index };

	c->op_start_ns = 0;
	return op;
}

/* Lets the sending of tx stop the clock of op.  A connection has only one clock, so another
 * operation that is due at the same time ends now. */
static void op_give(struct conn *c, struct delay_op op, uint64_t now_ns)
{
	struct worker *w = c->worker;

	if (!op.start_ns)
		return;
	w->turn.timing = true;
	if (c->op_start_ns)
		histogram_add(&w->stats.operations[op.index].latency, now_ns - op.start_ns,
			      op.count);
	else
		conn_op_sample(c, op.index, op.start_ns, op.count);
}

/* ---- Output ---- */

/* Output is measured in bytes or, where they are messages, in views: a datagram may be empty. */
static size_t amount(const struct conn *c, const struct bufq *q)
{
	return c->worker->engine->messages ? q->views : q->bytes;
}

/* Moves the first part of `from` behind `to`. */
static void amount_take(struct conn *c, struct bufq *to, struct bufq *from, size_t part)
{
	if (!c->worker->engine->messages)
		bufq_take(&c->worker->pool, to, from, part);
	else
		while (part-- > 0)
			bufq_move_view(to, from);
}

/* How much of tx was due before this run.  All of it for datagrams, which run() alone adds, even if
 * some of those due were dropped meanwhile.  For a byte stream only the part that had become due:
 * I/O of the service may have added output behind it since. */
static size_t amount_due(const struct conn *c, const struct delayed *d)
{
	return c->worker->engine->messages
		       ? c->tx.views
		       : (size_t)(d->released - c->bytes_out - c->sending.bytes);
}

/* NULL: no memory. */
static struct delayed *delayed_new(struct conn *c)
{
	struct delay *s = c->worker->delay;
	struct delayed *d, **heap;

	if (s->conns == s->capacity) {
		heap = reallocarray(s->heap, 2 * s->capacity + 16, sizeof(struct delayed *));
		if (!heap)
			return NULL;
		s->heap = heap;
		s->capacity = 2 * s->capacity + 16;
	}
	d = calloc(1, sizeof(*d));
	if (!d)
		return NULL;
	*d = (struct delayed){ .conn = c, .released = c->bytes_out };
	s->conns++;
	return d;
}

/* The last part of tx, made at now_ns, is held back until it is due.  0 or -ENOMEM. */
static int delay_mark(struct delayed *d, size_t part, uint64_t now_ns, struct delay_op op)
{
	struct worker *w = d->conn->worker;
	struct delay_mark *m = d->last;
	uint64_t due_ns = delay_due_ns(&w->options, now_ns, delay_random(w->delay));

	if (!part) {
		op_give(d->conn, op, now_ns);
		return 0;
	}
	d->marked += part;
	if (m)
		due_ns = MAX(due_ns, m->due_ns);
	if (m && due_ns == m->due_ns && !op.start_ns) {
		m->amount += part;
		return 0;
	}
	m = malloc(sizeof(*m));
	if (!m)
		return -ENOMEM;
	*m = (struct delay_mark){ .due_ns = due_ns, .amount = part, .op = op };
	*(d->last ? &d->last->next : &d->first) = m;
	d->last = m;
	d->count++;
	return 0;
}

/* Removes the marks that are due; returns their amount. */
static size_t delay_release(struct delayed *d, uint64_t now_ns)
{
	struct delay_mark *m;
	size_t part = 0;

	while ((m = d->first) != NULL && m->due_ns <= now_ns) {
		op_give(d->conn, m->op, now_ns);
		part += m->amount;
		d->first = m->next;
		d->count--;
		free(m);
	}
	if (!d->first)
		d->last = NULL;
	d->marked -= part;
	d->released += part;
	return part;
}

/* Moves the output that is held back into tx, before output that did not come from run(). */
static void delay_join(struct conn *c, struct delayed *d, size_t due_amount)
{
	struct bufq due = { 0 };

	if (d->held.head)
		conn_io_end(c, &d->held);
	if (amount(c, &c->tx) > due_amount)
		amount_take(c, &due, &c->tx, due_amount);
	else
		bufq_splice(&due, &c->tx);
	bufq_splice(&due, &d->held);
	bufq_prepend(&c->tx, &due);
}

/* Moves all of tx but its first due_amount back to the output that is held. */
static void delay_part(struct conn *c, struct delayed *d, size_t due_amount)
{
	struct bufq due = { 0 };

	if (amount(c, &c->tx) == due_amount)
		return;
	if (due_amount)
		amount_take(c, &due, &c->tx, due_amount);
	bufq_splice(&d->held, &c->tx);
	bufq_splice(&c->tx, &due);
	conn_io_begin(c, &d->held);
}

/* May the service run?  Output that is held back is bounded like output that the client does not
 * read.  A byte stream that holds none back always runs, as no timer would run it again.  Datagrams
 * must leave enough of the pool for the worker's socket to receive those of other clients. */
static bool delay_has_room(const struct conn *c, const struct delayed *d)
{
	const struct worker *w = c->worker;

	if (w->engine->connectionless ? pool_is_short(&w->pool) : !d->first)
		return !w->engine->connectionless;
	return d->count < DELAY_MARKS_MAX && !conn_is_full(c);
}

/* Drops the requests for which there is no room.  Only datagrams: a byte stream's requests wait in
 * rx and in the client's socket. */
static void delay_refuse(struct conn *c)
{
	struct worker *w = c->worker;

	if (!w->engine->connectionless)
		return;
	stat_add(w->stats.datagrams_dropped, c->rx.views);
	bufq_clear(&w->pool, &c->rx);
}

/* service->run.  Puts the held output into tx for the service, and takes out again what is not due:
 * the engine never sees that. */
static void delay_run(struct conn *c)
{
	struct worker *w = c->worker;
	struct delay *s = w->delay;
	struct delayed *d = c->delayed ? c->delayed : (c->delayed = delayed_new(c));
	struct delay_op sent = { 0 }, op = { 0 };
	size_t due, before;

	if (!d) {
		conn_failed(c, ENOMEM);
		return;
	}
	heap_remove(s, d); /* until its marks are known */
	due = amount_due(c, d);
	if (!due && !c->sending.bytes)
		op = op_take(c); /* begun outside of run() */
	delay_join(c, d, due);
	before = due + d->marked;
	due += delay_release(d, clock_ns());
	sent = op_take(c);
	op_give(c, op, clock_ns());
	if (delay_has_room(c, d))
		s->real_service->run(c);
	else
		delay_refuse(c);
	if (c->flags & CONN_CLOSING)
		return;
	op = op_take(c);
	op_give(c, sent, clock_ns());
	if (delay_mark(d, amount(c, &c->tx) - before, clock_ns(), op) < 0) {
		conn_failed(c, ENOMEM);
		return;
	}
	due += delay_release(d, clock_ns());
	delay_part(c, d, due);
	if (d->first)
		heap_add(s, d);
	delay_schedule(w);
}

/* engine->wait.  Connections whose output has become due run in this turn. */
static void delay_wait(struct worker *w, bool block)
{
	struct delay *s = w->delay;
	uint64_t now_ns;

	s->real_engine->wait(w, block);
	if (!s->count)
		return;
	now_ns = clock_ns();
	for (unsigned i = 0; i < WORKER_TURN_MAX && s->count && heap_ns(s, 1) <= now_ns; i++) {
		conn_ready(s->heap[0]->conn);
		heap_remove(s, s->heap[0]);
	}
	delay_schedule(w);
}

/* engine->close: what is held back is dropped. */
static void delay_close(struct conn *c)
{
	struct worker *w = c->worker;
	struct delayed *d = c->delayed;
	struct delay_mark *m;

	if (d) {
		if (d->held.head)
			conn_io_end(c, &d->held);
		if (w->engine->connectionless)
			stat_add(w->stats.datagrams_unsent, d->held.views);
		bufq_clear(&w->pool, &d->held);
		heap_remove(w->delay, d);
		delay_schedule(w);
		while ((m = d->first) != NULL) {
			d->first = m->next;
			free(m);
		}
		w->delay->conns--;
		c->delayed = NULL;
		free(d);
	}
	w->delay->real_engine->close(c);
}

/* ---- The worker ---- */

static bool delay_is_set(const struct delay_options *o)
{
	return o->ns[0] || o->ns[1];
}

/* engine->init.  The kernel adds a thread's timer slack, 50 us by default, to each sleep.  It is
 * set last: an engine that ends batching gives it the default (batch_off()). */
static int delay_start(struct worker *w, struct reason *reason)
{
	int rc = w->delay->real_engine->init(w, reason);

	prctl(PR_SET_TIMERSLACK, NS_PER_US);
	if (delay_is_set(&w->options.delay))
		worker_feature(w, FEATURE_delay);
	if (w->options.stall.ns)
		worker_feature(w, FEATURE_stall);
	return rc;
}

int delay_init(struct worker *w)
{
	const struct worker_options *o = &w->options;
	struct delay *s;

	if (!w->service || !(delay_is_set(&o->delay) || o->stall.ns))
		return 0;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->random = clock_ns() + w->index;
	s->real_service = w->service;
	s->real_engine = w->engine;
	s->service = *w->service;
	s->service.run = delay_run;
	s->engine = *w->engine;
	s->engine.init = delay_start;
	s->engine.wait = delay_wait;
	s->engine.close = delay_close;
	w->service = &s->service;
	w->engine = &s->engine;
	w->delay = s;
	return 0;
}

void delay_fini(struct worker *w)
{
	struct delay *s = w->delay;

	if (!s)
		return;
	w->service = s->real_service;
	w->engine = s->real_engine;
	w->delay = NULL;
	free(s->heap);
	free(s);
}
