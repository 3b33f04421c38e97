/* Connections that wait for the pool: serves them, and makes other connections release chunks.
 * Worker's thread only; see doc/internals/engines.md, "Waiting for memory". */
#include "conn.h"
#include "engine.h"
#include "pressure.h"
#include "worker.h"

/* ---- Serving ---- */

/* Serves c: it leaves its queue and runs in this turn or the next.  If it waits to receive, a chunk
 * is reserved for that receive (CONN_GRANTED), which comes later: until then other connections
 * could take the chunk. */
static void pressure_serve(struct conn *c)
{
	struct worker *w = c->worker;
	const struct pool *p = &w->pool;
	bool input = (c->flags & (CONN_NO_INPUT | CONN_EOF | CONN_RECV_OFF)) == CONN_NO_INPUT;

	w->pressure.moves |= !conn_is_behind(c);
	pressure_end_wait(c);
	c->flags |= CONN_OWN_RUN;
	if (input && !w->engine->messages && !conn_is_behind(c) &&
	    p->free_count > pressure_kept(w) + w->pressure.granted) {
		c->flags |= CONN_GRANTED;
		w->pressure.granted++;
	}
	if (!(c->flags & (CONN_EOF | CONN_RECV_OFF)))
		w->engine->recv(c, true);
	conn_ready(c);
}

/* Serves the connections of a queue whose services wait for chunks, as long as more chunks are free
 * than when a service last found too few. */
static void pressure_serve_services(struct worker *w, enum wait_kind queue)
{
	struct conn *next;

	for (struct conn *c = w->pressure.queues[queue].first;
	     c && w->pool.free_count > w->pressure.free_lacked; c = next) {
		next = c->wait.next;
		pressure_serve(c);
	}
}

/* Serves connections that wait for a chunk to receive into, in order of their tickets.  Some chunks
 * are left to connections without output that is not acknowledged.  A connection that waits again
 * at once has its ticket before `next`, so that the loop does not meet it twice. */
static void pressure_serve_inputs(struct worker *w)
{
	const struct pool *p = &w->pool;
	uint32_t taken = pressure_kept(w) + w->pressure.granted,
		 left = w->area.pages ? w->area.pages / 8 : pool_free_for_all(p) - pressure_kept(w);
	uint32_t input =
		w->area.pages
			? w->area.free
			: w->pool_posted + (p->free_count > taken ? p->free_count - taken : 0);
	struct conn *next = w->pressure.queues[WAIT_INPUT].first, *c;
	struct conn *behind = w->pressure.queues[WAIT_INPUT_BEHIND].first;

	for (; input > 0; input--) {
		if (behind && input > left && (!next || behind->wait.ticket < next->wait.ticket)) {
			c = behind;
			behind = c->wait.next;
		} else if (next) {
			c = next;
			next = c->wait.next;
		} else {
			break;
		}
		pressure_serve(c);
	}
}

/* The host has no memory for views: closes the connection that holds the most. */
static void worker_shed_views(struct worker *w)
{
	struct conn *most = NULL;

	if (pool_restore_views(&w->pool)) {
		pressure_set_floor(w);
		return;
	}
	for (struct conn *c = w->conns; c; c = c->next)
		if (!(c->flags & CONN_CLOSING) &&
		    (!most || conn_held_views(c) > conn_held_views(most)))
			most = c;
	if (most)
		conn_close(most, CONN_END_ERROR);
}

/* Called in each turn while connections wait.  Its cost depends on the number of connections that
 * it serves, not on the number that wait. */
void pressure_resume(struct worker *w)
{
	uint32_t free = w->pressure.free_lacked;

	pressure_serve_services(w, WAIT_SERVICE);
	pressure_serve_services(w, WAIT_SERVICE_BEHIND);
	pressure_serve_inputs(w);
	if (w->pool.free_count > free)
		w->pressure.free_lacked = UINT32_MAX; /* all waiting services run again, and report
						 again if they still lack chunks */
	if (unlikely(pool_lacks_views(&w->pool)) && w->pressure.waiting)
		worker_shed_views(w);
}

/* A measure of the output that the peer has taken: bytes that the kernel took, and zero-copy bytes
 * that the peer has acknowledged.  Any progress of the peer changes it. */
static uint64_t conn_moved(const struct conn *c)
{
	return 2 * c->bytes_out - c->pinned_bytes;
}

/* Called while connections wait for chunks that others hold.  Makes those others release the chunks
 * that they can do without, and closes connections whose peers take no output for some time. */
static void worker_check_pressure(struct worker *w, uint64_t now_ns)
{
	bool stuck;

	w->pressure.stuck = w->pressure.first && !w->pressure.moves ? w->pressure.stuck + 1 : 0;
	w->pressure.moves = false;
	stuck = w->pressure.stuck >= WORKER_PATIENCE_STUCK;
	for (struct conn *c = w->conns; c; c = c->next) {
		bool stalls =
			(conn_has_unsent(c) || c->pinned_bytes) && c->wait.moved == conn_moved(c);

		c->wait.stalled = stalls ? (uint8_t)(c->wait.stalled + 1) : 0;
		c->wait.moved = conn_moved(c);
		conn_drop_grant(c); /* it has not used its grant since the last check */
		if ((c->flags & CONN_UNACKED) && !pressure_update_unacked(c))
			pressure_update_wait(c);
		if (c->wait.stalled >= WORKER_PATIENCE ||
		    (stuck && c->wait.stalled >= WORKER_PATIENCE_STUCK &&
		     now_ns - c->active_ns >= WORKER_STALL_NS)) {
			conn_close(c, CONN_END_ERROR);
		} else if (c->rx.head) {
			/* Run by us, not by the client: does not reset the idle timer. */
			c->flags |= CONN_OWN_RUN;
			conn_compact(c);
		}
	}
	w->pressure.next_check_ns = now_ns + WORKER_CHECK_NS;
}

static void pressure_check_due(struct timer *t, uint64_t now_ns)
{
	struct worker *w = container_of(t, struct worker, pressure.timer);

	if (!w->pressure.waiting)
		return;
	worker_check_pressure(w, now_ns);
	worker_arm(w, t, w->pressure.next_check_ns);
}

void pressure_check_init(struct worker *w)
{
	w->pressure.timer.due = pressure_check_due;
	w->pressure.next_check_ns = w->turn.now_ns;
	w->pressure.free_lacked = UINT32_MAX;
}
