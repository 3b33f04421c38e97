/* Connections that wait for chunks of the worker's pool, and the limits of each: internal to core/.
 * pressure.c keeps the queues and the limits and calls no file above it.  conn.c puts connections
 * into the queues and takes them out.  pressure_check.c serves waiting connections, and closes
 * those that hold chunks for too long. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "conn.h"

/* Sets the number of free chunks below which receives need conn_reserve().  All receives need it
 * while chunks are granted, and while a connection waits, so that newcomers do not overtake it.
 * Otherwise they need it while chunks are short. */
void pressure_set_floor(struct worker *w);

/* Sets how many bytes a connection may hold; to be called when free chunks have changed. */
void pressure_set_held_max(struct worker *w);

/* pressure_check.c: the worker's timer of connections that wait, and serving them. */
void pressure_check_init(struct worker *w);
void pressure_resume(struct worker *w);

/* Chunks that no receive may take: the reserve leaves half of those kept for answers. */
uint32_t pressure_kept(const struct worker *w);

/* Does the socket hold output that the peer has not acknowledged (TCP) or
 * read (Unix)?  Sets CONN_UNACKED. */
bool pressure_update_unacked(struct conn *c);

/* Puts c, if it is in no queue, into one.  flags: CONN_NO_INPUT, if only a receive waits. */
void pressure_begin_wait(struct conn *c, uint32_t flags);

/* To be called when c's output may have changed.  If c waits for memory, and has begun or ceased to
 * wait for its own peer as well, it moves to another queue. */
void pressure_update_wait(struct conn *c);
/* Takes c, which does not wait for chunks any more, out of its queue. */
void pressure_end_wait(struct conn *c);

/* Does c wait for its own peer, before any chunk could help it?  The peer has to take the queued
 * output and, where chunks are short, the output in the socket as well: a peer that left that
 * unread would not read further output. */
static inline bool conn_is_behind(const struct conn *c)
{
	return conn_has_unsent(c) || (c->flags & CONN_UNACKED);
}
