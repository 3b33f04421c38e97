/* The order in which connections wait for the pool, what each may take of it, and what it may hold.
 * Worker's thread only; see pressure.h, and doc/internals/engines.md, "Waiting for memory". */
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "conn.h"
#include "engine.h"
#include "pressure.h"
#include "worker.h"

void pressure_set_floor(struct worker *w)
{
	struct pool *p = &w->pool;

	p->floor = w->pressure.first || w->pressure.granted || pool_lacks_views(p)
			   ? UINT32_MAX
			   : pool_free_for_all(p);
}

uint32_t pressure_kept(const struct worker *w)
{
	return w->engine->messages ? w->pool.keep : w->pool.keep / 2;
}

bool pressure_update_unacked(struct conn *c)
{
	int bytes = 0;

	c->flags &= ~(uint32_t)CONN_UNACKED;
	if (c->worker->engine->messages)
		return false;
	stat_add(c->worker->stats.sys_other, 1);
	if (ioctl(c->fd, SIOCOUTQ, &bytes) == 0 && bytes > 0)
		c->flags |= CONN_UNACKED;
	return c->flags & CONN_UNACKED;
}

void conn_drop_grant(struct conn *c)
{
	if (likely(!(c->flags & CONN_GRANTED)))
		return;
	c->flags &= ~(uint32_t)CONN_GRANTED;
	c->worker->pressure.granted--;
	pressure_set_floor(c->worker);
}

/* Drops the shared chunk: the next view of the reserve takes a new one. */
static void worker_end_reserve(struct worker *w)
{
	chunk_put(&w->pool, w->pressure.reserve);
	w->pressure.reserve = NULL;
}

/* True: c may take memory of the pool for a receive now; this uses up c's grant, if it has one.
 * While chunks are short, a connection without a grant gets none if it has output that is unsent
 * or that its peer has not acknowledged. */
static bool conn_claim(struct conn *c)
{
	const struct worker *w = c->worker;
	const struct pool *p = &w->pool;

	if (c->flags & CONN_GRANTED) {
		conn_drop_grant(c);
		return true;
	}
	if (w->pressure.first || p->free_count <= pressure_kept(w) + w->pressure.granted)
		return false;
	return !pool_is_short(p) || !(conn_has_unsent(c) || pressure_update_unacked(c));
}

/* A part of the chunk that views of the reserve share, or of a new one; NULL: the pool is empty. */
static struct view *worker_reserve(struct worker *w)
{
	struct pool *p = &w->pool;
	uint32_t bytes = p->chunk_size / CONN_RESERVE_PARTS, at;

	if (w->pressure.reserve && w->pressure.reserve->used + bytes > p->chunk_size)
		worker_end_reserve(w);
	if (!w->pressure.reserve) {
		w->pressure.reserve = chunk_get(p);
		/* Makes the end of this turn recompute the limits.  That drops the chunk again if
		 * it holds no data or chunks are no longer short. */
		w->limits.held_chunks = UINT32_MAX;
	}
	if (!w->pressure.reserve)
		return NULL;
	at = w->pressure.reserve->used;
	w->pressure.reserve->used += bytes;
	return view_new(p, w->pressure.reserve, w->pressure.reserve->base + at, bytes);
}

struct view *conn_reserve(struct conn *c)
{
	struct worker *w = c->worker;
	struct pool *p = &w->pool;
	struct view *v;
	struct chunk *k;

	if (pool_lacks_views(p) || !conn_claim(c))
		return NULL;
	if (pool_is_short(p))
		return worker_reserve(w);
	k = chunk_get(p);
	v = view_new(p, k, k->base, p->chunk_size);
	chunk_put(p, k); /* the view still holds a reference */
	return v;
}

/* Gives c a ticket behind all others.  A connection that was served but has received nothing since
 * keeps its earlier ticket, so that newcomers do not overtake it. */
static void conn_take_ticket(struct conn *c)
{
	if (c->wait.ticket && c->wait.ticket_bytes_in == c->bytes_in)
		return;
	c->wait.ticket = ++c->worker->pressure.tickets;
	c->wait.ticket_bytes_in = c->bytes_in;
}

/* Sets pressure.first: the ticket of the first connection that waits for chunks alone, and not for
 * its peer as well. */
static void worker_set_first(struct worker *w)
{
	const struct conn *service = w->pressure.queues[WAIT_SERVICE].first;
	const struct conn *input = w->pressure.queues[WAIT_INPUT].first;

	w->pressure.first = service ? service->wait.ticket : 0;
	if (input && (!w->pressure.first || input->wait.ticket < w->pressure.first))
		w->pressure.first = input->wait.ticket;
	pressure_set_floor(w);
}

static enum wait_kind conn_wait_kind(const struct conn *c)
{
	if (c->flags & CONN_NO_INPUT)
		return conn_is_behind(c) ? WAIT_INPUT_BEHIND : WAIT_INPUT;
	return conn_is_behind(c) ? WAIT_SERVICE_BEHIND : WAIT_SERVICE;
}

/* Puts c into its queue, by its ticket.  Most connections come last; those that were served and
 * received nothing come first.  So one comparison with the last and a short walk suffice. */
static void conn_enqueue(struct conn *c)
{
	struct worker *w = c->worker;
	struct wait_queue *q;
	struct conn *after;

	c->wait.queue = (uint8_t)conn_wait_kind(c);
	q = &w->pressure.queues[c->wait.queue];
	after = q->last && q->last->wait.ticket > c->wait.ticket ? q->first : NULL;
	while (after && after->wait.ticket < c->wait.ticket)
		after = after->wait.next;
	c->wait.next = after;
	c->wait.prev = after ? after->wait.prev : q->last;
	*(c->wait.prev ? &c->wait.prev->wait.next : &q->first) = c;
	*(after ? &after->wait.prev : &q->last) = c;
	w->pressure.waiting++;
	worker_set_first(w);
}

static void conn_dequeue(struct conn *c)
{
	struct worker *w = c->worker;
	struct wait_queue *q = &w->pressure.queues[c->wait.queue];

	*(c->wait.prev ? &c->wait.prev->wait.next : &q->first) = c->wait.next;
	*(c->wait.next ? &c->wait.next->wait.prev : &q->last) = c->wait.prev;
	w->pressure.waiting--;
	worker_set_first(w);
}

void pressure_update_wait(struct conn *c)
{
	if (!(c->flags & CONN_NO_MEMORY) || conn_wait_kind(c) == c->wait.queue)
		return;
	conn_dequeue(c);
	conn_enqueue(c);
}

void pressure_end_wait(struct conn *c)
{
	struct worker *w = c->worker;

	if (likely(!(c->flags & CONN_NO_MEMORY)))
		return;
	conn_dequeue(c);
	c->flags &= ~(uint32_t)(CONN_NO_MEMORY | CONN_NO_INPUT);
	/* conn_compact() may have taken a scratch chunk only to join small inputs: given back, it
	 * serves the next connection that waits. */
	if (!w->pressure.waiting && w->scratch) {
		chunk_put(&w->pool, w->scratch);
		w->scratch = NULL;
	}
}

void pressure_begin_wait(struct conn *c, uint32_t flags)
{
	struct worker *w = c->worker;

	if (c->flags & (CONN_NO_MEMORY | CONN_CLOSING))
		return;
	stat_add(w->stats.starved, 1);
	c->flags |= CONN_NO_MEMORY | flags;
	if (!conn_has_unsent(c))
		pressure_update_unacked(c);
	conn_drop_grant(c);
	conn_take_ticket(c);
	conn_enqueue(c);
	worker_arm(w, &w->pressure.timer,
		   w->turn.now_ns < w->pressure.next_check_ns ? w->pressure.next_check_ns : 0);
}

void conn_wait_for_memory(struct conn *c)
{
	struct worker *w = c->worker;

	w->pressure.free_lacked = MIN(w->pressure.free_lacked, w->pool.free_count);
	pressure_begin_wait(c, 0);
	c->flags &= ~(uint32_t)CONN_NO_INPUT; /* the service waits as well, not only a receive */
	pressure_update_wait(c);
}

/* True: replies to reads must be small, because chunks are short.  Clients that do not take
 * the data that they asked for may hold all chunks that reads may use.  The other chunks must
 * suffice for the input of other clients, for small replies, and for the reserve.  No read
 * can use a chunk that is posted to the kernel, so the limit is the same fraction of the
 * chunks that are not posted. */
static bool reads_are_small(const struct worker *w)
{
	const struct pool *p = &w->pool;

	return (uint64_t)p->free_count * p->chunk_count <=
	       (uint64_t)pool_free_for_all(p) * (p->chunk_count - w->pool_posted);
}

/* Has no other connection whose service waits for chunks waited for longer than c?  c may have left
 * the queue to run. */
static bool conn_is_longest_waiting(const struct conn *c)
{
	const struct conn *first = c->worker->pressure.queues[WAIT_SERVICE].first;

	return c->wait.ticket && c->wait.ticket_bytes_in == c->bytes_in &&
	       (!first || c->wait.ticket <= first->wait.ticket);
}

size_t conn_read_share(const struct conn *c, size_t bytes, uint32_t align)
{
	const struct worker *w = c->worker;
	const struct pool *p = &w->pool;

	/* Some chunks are left for other replies.  But if all others hold input whose reads wait,
	 * none becomes free before a read is answered: the longest waiting connection may have the
	 * last ones, until its input is used up. */
	if (p->free_count <= p->keep / 4 && !conn_is_longest_waiting(c))
		return 0;
	return MIN(bytes, reads_are_small(w) ? MAX(p->chunk_size / CONN_RESERVE_PARTS, align)
					     : w->limits.held_max);
}

bool conn_read_must_wait(const struct conn *c, bool in_memory)
{
	if (in_memory && unlikely(c->io.bytes >= CONN_RUN_BYTES))
		return true;
	return reads_are_small(c->worker) && (c->io.count > 0 || conn_has_unsent(c));
}

/* The limit of one connection shrinks as the pool empties, so that a few clients that never read
 * cannot take it all; never below two chunks. */
void pressure_set_held_max(struct worker *w)
{
	uint32_t chunks, keep = pool_free_for_all(&w->pool);
	size_t chunk = w->pool.chunk_size, share;

	if (unlikely(w->pressure.reserve) &&
	    (w->pressure.reserve->refs == 1 || !pool_is_short(&w->pool)))
		worker_end_reserve(w);
	chunks = worker_chunks(w);
	w->limits.held_chunks =
		/* With the reserve in use: recomputed at the end of each turn. */
		w->pressure.reserve ? UINT32_MAX : chunks;
	worker_count_chunks(w);
	w->limits.held_max = w->limits.views_max = w->limits.views_few = SIZE_MAX;
	if (w->engine->connectionless)
		return;
	share = MAX(chunks > keep ? (chunks - keep) / 4 : 0, 2U);
	w->limits.held_max = MIN(share * chunk, w->limits.held_limit);
	w->limits.views_max = MIN(share, w->limits.held_limit / CONN_VIEW_BYTES);
	w->limits.views_few = MIN(w->limits.views_max, w->limits.held_max / chunk);
}
