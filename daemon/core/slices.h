/* I/O that costs the worker's CPU time and moves none of its client's bytes: clearing memory,
 * looking for holes.  A store does it in slices (store->slice()), for SLICES_TURN_NS of a turn at
 * most. Connections take turns slice by slice, so that one waits no longer because another asks for
 * more.
 *
 * Worker's thread only. */
#pragma once

struct conn;
struct io;
struct worker;

enum { SLICES_TURN_NS = 100 * 1000 };

/* Called by a store's submit(): starts io, and ends it, perhaps before this returns. */
void slices_submit(struct io *io);
/* Called each turn while there are some: WORKER_DUE_SLICES. */
void slices_run(struct worker *w);
/* Ends the requests of c, which is closing, as far as they are still waiting: -ESHUTDOWN. */
void slices_drop(struct conn *c);
/* The same of all connections: the worker ends. */
void slices_drop_all(struct worker *w);
