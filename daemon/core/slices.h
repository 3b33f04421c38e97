/* I/O that costs the worker's CPU time and moves none of its client's bytes: clearing memory,
 * looking for holes.  A store does it in slices (store->slice()), for at most SLICES_TURN_NS of a
 * turn. Connections take turns slice by slice, so that a large request does not delay those of
 * others. Worker's thread only. */
#pragma once

struct conn;
struct io;
struct worker;

enum { SLICES_TURN_NS = 100 * 1000 };

/* Called by a store's submit(): starts io, and ends it by io_finish(),
 * perhaps before this returns. */
void slices_submit(struct io *io);
/* Called in each turn while a connection has I/O in slices: WORKER_DUE_SLICES. */
void slices_run(struct worker *w);
/* Ends the waiting requests of c, which is closing, with -ESHUTDOWN. */
void slices_drop(struct conn *c);
/* The same for all connections, when the worker ends. */
void slices_drop_all(struct worker *w);
