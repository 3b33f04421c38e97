/* I/O in slices: a queue of connections, each with a queue of requests.  See slices.h. */
#include "slices.h"

#include <errno.h>

#include "conn.h"
#include "store.h"

/* Is time left in this turn? */
static bool slices_may_run(struct worker *w)
{
	uint64_t turn = stat_load(w->stats.turns);

	if (w->slices.turn != turn) {
		w->slices.turn = turn;
		w->slices.ns = 0;
	}
	return w->slices.ns < SLICES_TURN_NS;
}

/* Runs store->slice() and charges its time to the turn. */
static int slice(struct io *io)
{
	uint64_t begin_ns = clock_ns();
	int rc = io->mount->store->slice(io);

	io->mount->worker->slices.ns += clock_ns() - begin_ns;
	return rc;
}

static void slices_end(struct io *io, int result)
{
	stat_add(io->mount->worker->stats.sys_other, io->calls);
	io_finish(io, result);
}

static void slices_push(struct conn *c)
{
	struct worker *w = c->worker;

	c->slices.next = NULL;
	if (w->slices.first)
		w->slices.last->slices.next = c;
	else
		w->slices.first = c;
	w->slices.last = c;
	w->turn.due |= WORKER_DUE_SLICES;
}

static void slices_add(struct conn *c, struct io *io)
{
	io->next = NULL;
	if (c->slices.first) {
		c->slices.last->next = io;
	} else {
		c->slices.first = io;
		slices_push(c);
	}
	c->slices.last = io;
}

/* The first slices of a request run at once, so that a short request does not have to
 * wait for the next turn.  The request is queued only behind other requests, or when
 * this turn's time is used up. */
void slices_submit(struct io *io)
{
	struct worker *w = io->mount->worker;
	int rc = 1;

	while (rc > 0 && !w->slices.first && slices_may_run(w))
		rc = slice(io);
	if (rc > 0)
		slices_add(io->conn, io);
	else
		slices_end(io, rc);
}

/* Each connection gets one slice and then moves to the end of the queue.  slices_end() is called
 * last, because from within done() the service may submit or drop requests. */
void slices_run(struct worker *w)
{
	while (w->slices.first && slices_may_run(w)) {
		struct conn *c = w->slices.first;
		struct io *io = c->slices.first;
		int rc = slice(io);

		w->slices.first = c->slices.next;
		if (rc <= 0)
			c->slices.first = io->next;
		if (c->slices.first)
			slices_push(c);
		if (rc <= 0)
			slices_end(io, rc);
	}
}

void slices_drop(struct conn *c)
{
	struct worker *w = c->worker;
	struct conn **at = &w->slices.first, *before = NULL;
	struct io *io = c->slices.first;

	c->slices.first = NULL;
	for (; *at != c; at = &before->slices.next)
		before = *at;
	*at = c->slices.next;
	if (w->slices.last == c)
		w->slices.last = before;
	for (struct io *next; io; io = next) {
		next = io->next;
		slices_end(io, -ESHUTDOWN);
	}
}

void slices_drop_all(struct worker *w)
{
	while (w->slices.first)
		slices_drop(w->slices.first);
}
