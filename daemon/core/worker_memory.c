/* Connections that wait for chunks of the worker's pool: the order in which they are served, and
 * when those that hold what others wait for are closed.  Worker's thread only; see doc/engines.md,
 * "Waiting for memory". */
#include "conn.h"
#include "engine.h"
#include "worker.h"

/* ---- Waiting ---- */

/* Newcomers may not go past those who wait, nor take what was granted; the last eighth above `keep`
 * is for those who owe nothing: see conn_claim(). */
static void worker_set_floor(struct worker *w)
{
	struct pool *p = &w->pool;

	p->floor = w->first || w->granted ? UINT32_MAX : p->keep + p->chunk_count / 8;
}

void conn_drop_grant(struct conn *c)
{
	if (likely(!(c->flags & CONN_GRANTED)))
		return;
	c->flags &= ~(uint32_t)CONN_GRANTED;
	c->worker->granted--;
	worker_set_floor(c->worker);
}

bool conn_claim(struct conn *c)
{
	const struct worker *w = c->worker;
	const struct pool *p = &w->pool;

	if (c->flags & CONN_GRANTED) {
		conn_drop_grant(c);
		return p->free_count > 0;
	}
	return !w->first && p->free_count > p->keep + w->granted && !conn_owes(c);
}

/* A connection that was served and got no chunk keeps its place. */
static void conn_take_place(struct conn *c)
{
	if (c->place && c->place_in == c->bytes_in)
		return;
	c->place = ++c->worker->places;
	c->place_in = c->bytes_in;
}

static void worker_enqueue_starved(struct worker *w, struct conn *c)
{
	struct conn **at = &w->starved;

	if (*at && w->starved_last->place < c->place)
		at = &w->starved_last->starved_next;
	while (*at && (*at)->place < c->place)
		at = &(*at)->starved_next;
	c->starved_next = *at;
	*at = c;
	if (!c->starved_next)
		w->starved_last = c;
}

/* c is starved.  Who is the first that does not just wait for its own peer? */
static void worker_note_first(struct worker *w, const struct conn *c)
{
	if (!conn_owes(c) && (!w->first || c->place < w->first))
		w->first = c->place;
}

static void conn_starve(struct conn *c, uint32_t flags)
{
	struct worker *w = c->worker;

	if (c->flags & CONN_STARVED)
		return;
	stat_add(w->stats.starved, 1);
	c->flags |= CONN_STARVED | flags;
	conn_drop_grant(c);
	conn_take_place(c);
	worker_enqueue_starved(w, c);
	worker_note_first(w, c);
	worker_set_floor(w);
	worker_scan_at(w, w->relief_ns);
}

void conn_starved(struct conn *c)
{
	struct worker *w = c->worker;

	w->starved_free = MIN(w->starved_free, w->pool.free_count);
	conn_starve(c, 0);
	c->flags &= ~(uint32_t)CONN_NO_INPUT; /* it waits for more than that, now */
}

void conn_starved_input(struct conn *c)
{
	conn_starve(c, CONN_NO_INPUT);
	conn_relieve(c);
}

/* ---- Serving ---- */

/* Is there what c waits for?  More to write into than the `free` that were not enough; or one of
 * the chunks to receive into, of which there are *input, and of which those who owe leave some. */
static bool worker_can_feed(const struct worker *w, const struct conn *c, uint32_t free,
			    uint32_t *input)
{
	if (c->flags & CONN_CLOSING)
		return true;
	if (!(c->flags & CONN_NO_INPUT))
		return w->pool.free_count > free;
	if (*input <= (conn_owes(c) ? w->pool.chunk_count / 8 : 0))
		return false;
	--*input;
	return true;
}

static void conn_feed(struct conn *c)
{
	struct worker *w = c->worker;
	bool input = (c->flags & (CONN_NO_INPUT | CONN_CLOSING | CONN_EOF | CONN_RECV_OFF)) ==
		     CONN_NO_INPUT;

	c->flags &= ~(uint32_t)(CONN_STARVED | CONN_NO_INPUT);
	c->flags |= CONN_FED;
	if (input && !w->engine->messages) {
		c->flags |= CONN_GRANTED;
		w->granted++;
	}
	if (!(c->flags & (CONN_CLOSING | CONN_EOF | CONN_RECV_OFF)))
		w->engine->recv(c, true);
	conn_ready(c);
}

void worker_feed_starved(struct worker *w)
{
	const struct pool *p = &w->pool;
	uint32_t free = w->starved_free, taken = p->keep + w->granted;
	uint32_t input = w->pool_lent + (p->free_count > taken ? p->free_count - taken : 0);
	struct conn *c = w->starved, *next;

	w->starved = w->starved_last = NULL; /* an engine may have c wait again at once */
	w->first = 0;
	for (; c; c = next) {
		next = c->starved_next;
		if (worker_can_feed(w, c, free, &input)) {
			w->moves |= !(c->flags & CONN_CLOSING) && !conn_owes(c);
			conn_feed(c);
		} else {
			worker_enqueue_starved(w, c);
			worker_note_first(w, c);
		}
	}
	worker_set_floor(w);
	if (p->free_count > free)
		w->starved_free = UINT32_MAX; /* all services run again, and say anew */
	if (!w->starved && w->scratch) {      /* conn_relieve() may have been its only user */
		chunk_put(&w->pool, w->scratch);
		w->scratch = NULL;
	}
}

/* Connections wait for chunks that others hold: has the others give back what they can, and closes
 * those whose peers have taken nothing of their output for some time. */
static void worker_relieve(struct worker *w)
{
	bool stuck;

	w->stuck = w->first && !w->moves ? w->stuck + 1 : 0;
	w->moves = false;
	stuck = w->stuck >= WORKER_PATIENCE_STUCK;
	for (struct conn *c = w->conns; c; c = c->next) {
		bool stalls = conn_owes(c) && c->relief_out == c->bytes_out;

		c->stalled = stalls ? (uint8_t)(c->stalled + 1) : 0;
		c->relief_out = c->bytes_out;
		conn_drop_grant(c); /* it had time enough */
		if (c->stalled >= WORKER_PATIENCE ||
		    (stuck && c->stalled >= WORKER_PATIENCE_STUCK &&
		     w->now_ns - c->active_ns >= WORKER_STALL_NS)) {
			conn_close(c, CONN_END_ERROR);
		} else if (c->rx.head) {
			c->flags |= CONN_FED; /* no sign of its life */
			conn_relieve(c);
		}
	}
	w->relief_ns = w->now_ns + WORKER_RELIEF_NS;
}

void worker_look_at_holders(struct worker *w)
{
	if (w->now_ns >= w->relief_ns)
		worker_relieve(w);
	worker_scan_at(w, w->relief_ns);
}

/* Clients who do not read what they have asked for may end up with all that reads may take.  What
 * is left of a worker's chunks has to do for the input of the others, for what is small, and for a
 * piece at a time to those who have read all. */
static bool reads_are_small(const struct worker *w)
{
	return worker_chunks(w) <= w->pool.keep + w->pool.chunk_count / 8;
}

size_t conn_read_share(const struct conn *c, size_t bytes, uint32_t align)
{
	const struct worker *w = c->worker;
	const struct pool *p = &w->pool;

	if (p->free_count <= p->keep / 4)
		return 0;
	return MIN(bytes, reads_are_small(w) ? MAX(p->chunk_size / 2, align) : w->held_max);
}

bool conn_read_must_wait(const struct conn *c)
{
	return reads_are_small(c->worker) && (c->io_count > 0 || conn_owes(c));
}

/* The limit of one connection shrinks as the pool empties, so that a few clients that never read
 * cannot take it all; never below two chunks. */
void worker_set_held_max(struct worker *w)
{
	uint32_t chunks = worker_chunks(w), keep = w->pool.keep;
	size_t chunk = w->pool.chunk_size, share;

	w->held_chunks = chunks;
	worker_count_chunks(w);
	w->held_max = w->views_max = SIZE_MAX;
	if (w->engine->connectionless)
		return;
	share = MAX(chunks > keep ? (chunks - keep) / 4 : 0, 2U);
	w->held_max = MIN(share * chunk, w->held_limit);
	w->views_max = MIN(share, w->held_limit / CONN_VIEW_BYTES);
}
