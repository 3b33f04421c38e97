/* Connections that wait for chunks of the worker's pool: the order in which they are served, and
 * when connections that hold chunks are closed.  Worker's thread only; see doc/engines.md, "Waiting
 * for memory". */
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "conn.h"
#include "engine.h"
#include "worker.h"

/* ---- Waiting ---- */

/* Sets the number of free chunks below which receives need conn_ration(): all do while a connection
 * waits, as newcomers must not overtake it, or while chunks are granted, or while they are short.
 */
static void worker_set_floor(struct worker *w)
{
	struct pool *p = &w->pool;

	p->floor =
		w->first || w->granted || pool_lacks_views(p) ? UINT32_MAX : pool_free_for_all(p);
}

/* Chunks that no receive may take: rations leave half of those kept for answers. */
static uint32_t worker_kept(const struct worker *w)
{
	return w->engine->messages ? w->pool.keep : w->pool.keep / 2;
}

/* Does c wait for its own peer, before any chunk could help it?  The peer has to take the queued
 * output and, where chunks are short, the output in the socket too: a peer that has not read that
 * would not read more. */
static bool conn_is_behind(const struct conn *c)
{
	return conn_owes(c) || (c->flags & CONN_UNREAD);
}

/* Does the socket hold output that the peer has not acknowledged (TCP) or read (Unix)?  Sets
 * CONN_UNREAD. */
static bool conn_look_unread(struct conn *c)
{
	int bytes = 0;

	c->flags &= ~(uint32_t)CONN_UNREAD;
	if (c->worker->engine->messages)
		return false;
	stat_add(c->worker->stats.sys_other, 1);
	if (ioctl(c->fd, SIOCOUTQ, &bytes) == 0 && bytes > 0)
		c->flags |= CONN_UNREAD;
	return c->flags & CONN_UNREAD;
}

void conn_drop_grant(struct conn *c)
{
	if (likely(!(c->flags & CONN_GRANTED)))
		return;
	c->flags &= ~(uint32_t)CONN_GRANTED;
	c->worker->granted--;
	worker_set_floor(c->worker);
}

/* Drops the shared chunk: the next ration takes a new one. */
static void worker_end_rations(struct worker *w)
{
	chunk_put(&w->pool, w->ration);
	w->ration = NULL;
}

/* May c have a chunk, or a ration, to receive into now?  Rations go only to connections without
 * unread output. */
static bool conn_claim(struct conn *c)
{
	const struct worker *w = c->worker;
	const struct pool *p = &w->pool;

	if (c->flags & CONN_GRANTED) {
		conn_drop_grant(c);
		return true;
	}
	if (w->first || p->free_count <= worker_kept(w) + w->granted)
		return false;
	return !pool_is_short(p) || !(conn_owes(c) || conn_look_unread(c));
}

/* A part of the chunk that rations share, or of a new one; NULL: the pool is exhausted. */
static struct view *worker_ration(struct worker *w)
{
	struct pool *p = &w->pool;
	uint32_t bytes = p->chunk_size / CONN_RATIONS, at;

	if (w->ration && w->ration->used + bytes > p->chunk_size)
		worker_end_rations(w);
	if (!w->ration) {
		w->ration = chunk_get(p);
		/* Recomputed at the end of this turn, which drops it if nothing is in it, or chunks
		 * are not short any more. */
		w->held_chunks = UINT32_MAX;
	}
	if (!w->ration)
		return NULL;
	at = w->ration->used;
	w->ration->used += bytes;
	return view_new(p, w->ration, w->ration->base + at, bytes);
}

struct view *conn_ration(struct conn *c)
{
	struct worker *w = c->worker;
	struct pool *p = &w->pool;
	struct view *v;
	struct chunk *k;

	if (pool_lacks_views(p) || !conn_claim(c))
		return NULL;
	if (pool_is_short(p))
		return worker_ration(w);
	k = chunk_get(p);
	v = view_new(p, k, k->base, p->chunk_size);
	chunk_put(p, k); /* the view still holds a reference */
	return v;
}

void conn_ration_used(struct conn *c, struct view *ration, size_t bytes)
{
	struct chunk *k = ration->chunk;

	if (bytes > 0)
		conn_input(c, k, ration->data, (uint32_t)bytes);
	if (ration->data + ration->len ==
	    k->base + k->used) /* the last ration of the chunk: gives its unused end back */
		k->used -= ration->len - (uint32_t)bytes;
	view_free(&c->worker->pool, ration);
}

/* Gives c a place at the end of the queue.  A connection that was served and received nothing since
 * keeps its place. */
static void conn_take_place(struct conn *c)
{
	if (c->place && c->place_in == c->bytes_in)
		return;
	c->place = ++c->worker->places;
	c->place_in = c->bytes_in;
}

/* The place of the first connection that does not wait for its own peer as well. */
static void worker_set_first(struct worker *w)
{
	const struct conn *service = w->starving[STARVED_SERVICE].first;
	const struct conn *input = w->starving[STARVED_INPUT].first;

	w->first = service ? service->place : 0;
	if (input && (!w->first || input->place < w->first))
		w->first = input->place;
	worker_set_floor(w);
}

static enum starved_for conn_starved_for(const struct conn *c)
{
	if (c->flags & CONN_NO_INPUT)
		return conn_is_behind(c) ? STARVED_INPUT_BEHIND : STARVED_INPUT;
	return conn_is_behind(c) ? STARVED_SERVICE_BEHIND : STARVED_SERVICE;
}

/* Most come last or, when they were served and received nothing, first. */
static void conn_enqueue(struct conn *c)
{
	struct worker *w = c->worker;
	struct starved_queue *q;
	struct conn *after;

	c->starved_for = (uint8_t)conn_starved_for(c);
	q = &w->starving[c->starved_for];
	after = q->last && q->last->place > c->place ? q->first : NULL;
	while (after && after->place < c->place)
		after = after->starved_next;
	c->starved_next = after;
	c->starved_prev = after ? after->starved_prev : q->last;
	*(c->starved_prev ? &c->starved_prev->starved_next : &q->first) = c;
	*(after ? &after->starved_prev : &q->last) = c;
	w->starved++;
	worker_set_first(w);
}

static void conn_dequeue(struct conn *c)
{
	struct worker *w = c->worker;
	struct starved_queue *q = &w->starving[c->starved_for];

	*(c->starved_prev ? &c->starved_prev->starved_next : &q->first) = c->starved_next;
	*(c->starved_next ? &c->starved_next->starved_prev : &q->last) = c->starved_prev;
	w->starved--;
	worker_set_first(w);
}

void conn_starved_on(struct conn *c)
{
	if (!(c->flags & CONN_STARVED) || conn_starved_for(c) == c->starved_for)
		return;
	conn_dequeue(c);
	conn_enqueue(c);
}

void conn_unstarve(struct conn *c)
{
	struct worker *w = c->worker;

	if (likely(!(c->flags & CONN_STARVED)))
		return;
	conn_dequeue(c);
	c->flags &= ~(uint32_t)(CONN_STARVED | CONN_NO_INPUT);
	if (!w->starved && w->scratch) { /* perhaps only conn_relieve() used it */
		chunk_put(&w->pool, w->scratch);
		w->scratch = NULL;
	}
}

static void conn_starve(struct conn *c, uint32_t flags)
{
	struct worker *w = c->worker;

	if (c->flags & (CONN_STARVED | CONN_CLOSING))
		return;
	stat_add(w->stats.starved, 1);
	c->flags |= CONN_STARVED | flags;
	if (!conn_owes(c))
		conn_look_unread(c);
	conn_drop_grant(c);
	conn_take_place(c);
	conn_enqueue(c);
	worker_arm(w, &w->relief_timer, w->now_ns < w->relief_ns ? w->relief_ns : 0);
}

void conn_starved(struct conn *c)
{
	struct worker *w = c->worker;

	w->starved_free = MIN(w->starved_free, w->pool.free_count);
	conn_starve(c, 0);
	c->flags &= ~(uint32_t)CONN_NO_INPUT; /* the service waits as well, not only a receive */
	conn_starved_on(c);
}

void conn_starved_input(struct conn *c)
{
	conn_starve(c, CONN_NO_INPUT);
	conn_relieve(c);
}

/* ---- Serving ---- */

static void conn_feed(struct conn *c)
{
	struct worker *w = c->worker;
	const struct pool *p = &w->pool;
	bool input = (c->flags & (CONN_NO_INPUT | CONN_EOF | CONN_RECV_OFF)) == CONN_NO_INPUT;

	w->moves |= !conn_is_behind(c);
	conn_unstarve(c);
	c->flags |= CONN_FED;
	if (input && !w->engine->messages && !conn_is_behind(c) &&
	    p->free_count > worker_kept(w) + w->granted) {
		c->flags |= CONN_GRANTED;
		w->granted++;
	}
	if (!(c->flags & (CONN_EOF | CONN_RECV_OFF)))
		w->engine->recv(c, true);
	conn_ready(c);
}

/* Services need more free chunks than were not enough. */
static void worker_feed_services(struct worker *w, enum starved_for queue)
{
	struct conn *next;

	for (struct conn *c = w->starving[queue].first; c && w->pool.free_count > w->starved_free;
	     c = next) {
		next = c->starved_next;
		conn_feed(c);
	}
}

/* Feeds those that wait for a chunk to receive into, in order of their places; some chunks are left
 * to connections without unread output.  One that waits again at once has its place before the
 * next. */
static void worker_feed_inputs(struct worker *w)
{
	const struct pool *p = &w->pool;
	uint32_t taken = worker_kept(w) + w->granted, left = pool_free_for_all(p) - worker_kept(w);
	uint32_t input = w->pool_lent + (p->free_count > taken ? p->free_count - taken : 0);
	struct conn *next = w->starving[STARVED_INPUT].first, *c;
	struct conn *behind = w->starving[STARVED_INPUT_BEHIND].first;

	for (; input > 0; input--) {
		if (behind && input > left && (!next || behind->place < next->place)) {
			c = behind;
			behind = c->starved_next;
		} else if (next) {
			c = next;
			next = c->starved_next;
		} else {
			break;
		}
		conn_feed(c);
	}
}

/* The host has no memory for views: closes the connection that has most. */
static void worker_shed_views(struct worker *w)
{
	struct conn *most = NULL;

	if (pool_restore_views(&w->pool)) {
		worker_set_floor(w);
		return;
	}
	for (struct conn *c = w->conns; c; c = c->next)
		if (!(c->flags & CONN_CLOSING) &&
		    (!most || conn_held_views(c) > conn_held_views(most)))
			most = c;
	if (most)
		conn_close(most, CONN_END_ERROR);
}

/* Costs as much as it serves, however many wait. */
void worker_feed_starved(struct worker *w)
{
	uint32_t free = w->starved_free;

	worker_feed_services(w, STARVED_SERVICE);
	worker_feed_services(w, STARVED_SERVICE_BEHIND);
	worker_feed_inputs(w);
	if (w->pool.free_count > free)
		w->starved_free = UINT32_MAX; /* all starved services run again, and report anew if
						 they still lack chunks */
	if (unlikely(pool_lacks_views(&w->pool)) && w->starved)
		worker_shed_views(w);
}

/* Output that the kernel has taken, and zero-copy output that the peer has acknowledged: a peer
 * that takes any changes it. */
static uint64_t conn_moved(const struct conn *c)
{
	return 2 * c->bytes_out - c->lent_bytes;
}

/* Called while connections wait for chunks that others hold: has the others give back what they
 * can, and closes those whose peers have taken none of their output for some time. */
static void worker_relieve(struct worker *w, uint64_t now_ns)
{
	bool stuck;

	w->stuck = w->first && !w->moves ? w->stuck + 1 : 0;
	w->moves = false;
	stuck = w->stuck >= WORKER_PATIENCE_STUCK;
	for (struct conn *c = w->conns; c; c = c->next) {
		bool stalls = (conn_owes(c) || c->lent_bytes) && c->relief_moved == conn_moved(c);

		c->stalled = stalls ? (uint8_t)(c->stalled + 1) : 0;
		c->relief_moved = conn_moved(c);
		conn_drop_grant(c); /* it has not used its grant since the last look */
		if ((c->flags & CONN_UNREAD) && !conn_look_unread(c))
			conn_starved_on(c);
		if (c->stalled >= WORKER_PATIENCE ||
		    (stuck && c->stalled >= WORKER_PATIENCE_STUCK &&
		     now_ns - c->active_ns >= WORKER_STALL_NS)) {
			conn_close(c, CONN_END_ERROR);
		} else if (c->rx.head) {
			c->flags |= CONN_FED; /* run by us: does not reset the idle timer */
			conn_relieve(c);
		}
	}
	w->relief_ns = now_ns + WORKER_RELIEF_NS;
}

void worker_relief_due(struct timer *t, uint64_t now_ns)
{
	struct worker *w = container_of(t, struct worker, relief_timer);

	if (!w->starved)
		return;
	worker_relieve(w, now_ns);
	worker_arm(w, t, w->relief_ns);
}

/* True: replies to reads must be small, because chunks are short.  Clients that do not take the
 * data that they asked for may tie up all chunks that reads may use; the rest must suffice for the
 * input of other clients, for small replies, and for rations.  Chunks lent to the kernel serve no
 * read, so the bound is the same fraction of those not lent. */
static bool reads_are_small(const struct worker *w)
{
	const struct pool *p = &w->pool;

	return (uint64_t)p->free_count * p->chunk_count <=
	       (uint64_t)pool_free_for_all(p) * (p->chunk_count - w->pool_lent);
}

size_t conn_read_share(const struct conn *c, size_t bytes, uint32_t align)
{
	const struct worker *w = c->worker;
	const struct pool *p = &w->pool;

	if (p->free_count <= p->keep / 4)
		return 0;
	return MIN(bytes,
		   reads_are_small(w) ? MAX(p->chunk_size / CONN_RATIONS, align) : w->held_max);
}

bool conn_read_must_wait(const struct conn *c, bool in_memory)
{
	if (in_memory && unlikely(c->io_bytes >= CONN_RUN_BYTES))
		return true;
	return reads_are_small(c->worker) && (c->io_count > 0 || conn_owes(c));
}

/* The limit of one connection shrinks as the pool empties, so that a few clients that never read
 * cannot take it all; never below two chunks. */
void worker_set_held_max(struct worker *w)
{
	uint32_t chunks, keep = pool_free_for_all(&w->pool);
	size_t chunk = w->pool.chunk_size, share;

	if (unlikely(w->ration) && (w->ration->refs == 1 || !pool_is_short(&w->pool)))
		worker_end_rations(w);
	chunks = worker_chunks(w);
	w->held_chunks = w->ration ? UINT32_MAX : chunks; /* looks again at the end of each turn */
	worker_count_chunks(w);
	w->held_max = w->views_max = w->views_few = SIZE_MAX;
	if (w->engine->connectionless)
		return;
	share = MAX(chunks > keep ? (chunks - keep) / 4 : 0, 2U);
	w->held_max = MIN(share * chunk, w->held_limit);
	w->views_max = MIN(share, w->held_limit / CONN_VIEW_BYTES);
	w->views_few = MIN(w->views_max, w->held_max / chunk);
}
