/* Bulk receivers: connections whose input is only counted.
 *
 * Nobody waits for an answer to such input, so that it may come in larger pieces: while one bulk
 * receiver alone brings much, its socket's low-water mark (SO_RCVLOWAT, socket(7)) is raised,
 * unless the listener does without (the feature rcvlowat), and the worker wakes for BULK_MARK bytes
 * instead of for each segment.  The kernel wakes it earlier for a FIN, a reset, and when little is
 * left of the receive window (tcp_epollin_ready of Linux 5.12).  When the bulk receiver falls
 * silent the mark is taken back, and what is below it arrives.
 *
 * Several busy bulk receivers have no mark.  Where the engine receives by itself they pool their
 * shares of a turn: one after another receives as much as the pool has, those that have waited
 * longest first, while the input of the others collects.  Worker's thread only. */
#pragma once
#include <stdint.h>

#include "conn.h"

enum {
	BULK_MARK = 256 * 1024, /* bytes */
	BULK_PIECE = 32 * 1024, /* bytes in one turn that make a bulk receiver busy */
	BULK_ALONE = 4 << 20,   /* bytes that it brings before the mark is raised; by then the
				   receive window is wide */
	BULK_MS = 10,           /* milliseconds of silence after which the mark is taken back */
};

/* Called by a service: drops all input of c. */
void bulk_take(struct conn *c);
/* What has arrived at c is wanted now. */
void bulk_end(struct conn *c);
/* There is no busy bulk receiver any more: w->bulk.busy ends, or has no mark any more. */
void bulk_forget(struct worker *w);

/* Called by an engine that is about to receive from c, which has CONN_BULK: the bytes that c may
 * receive in this turn.  0: none; c runs without input, so that it counts among those who share the
 * turn, and may receive in one of the next turns. */
size_t bulk_share(struct conn *c);
/* Called after that when `bytes` have been received. */
void bulk_received(struct conn *c, size_t bytes);
