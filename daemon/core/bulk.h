/* Bulk receivers: connections whose input is only counted.
 *
 * No client waits for an answer to such input, so that it may come in larger pieces.  While one
 * bulk receiver alone brings much, its socket's low-water mark is raised (SO_RCVLOWAT, socket(7)),
 * unless the listener switches the feature rcvlowat off.  The worker then wakes for BULK_MARK bytes
 * instead of for each segment.  The kernel wakes it earlier for a FIN, for a reset, and when little
 * is left of the receive window (tcp_epollin_ready of Linux 5.12).  When the bulk receiver falls
 * silent the mark is taken back, and the bytes below it are received.
 *
 * Several busy bulk receivers have no mark.  On engines that receive by calls they pool their
 * shares of a turn: in each turn one receives as much as the pool has, first the one that has
 * waited longest, while the input of the others collects in their sockets.  Worker's thread. */
#pragma once
#include <stdint.h>

#include "conn.h"
#include "keys.h"

enum {
	BULK_MARK = 256 * 1024, /* bytes */
	BULK_PIECE = 32 * 1024, /* bytes in one turn that make a bulk receiver busy */
	BULK_ALONE = 4 << 20,   /* bytes that it brings before the mark is raised; by then the
				   receive window is wide */
	BULK_MS = 10,           /* milliseconds of silence after which the mark is taken back */
};

/* The key `receive`, of services with bulk receivers. */
extern const struct key_table bulk_key_table;

/* Called by a service whose keys are bulk_key_table: drops all input of c. */
void bulk_take(struct conn *c);
/* From its next receive on the kernel drops the input of c, a stream over TCP, instead of
 * copying it (MSG_TRUNC, tcp(7)).  The views in c->rx then have undefined contents, and only
 * their length counts.  A Unix socket copies all the same, and an engine without the feature
 * `drop` continues to copy. */
void bulk_drop(struct conn *c);
/* Takes the mark of c back; the kernel then reports the input that has arrived below it. */
void bulk_end(struct conn *c);
/* Ends the state of the busy bulk receiver, w->bulk.busy.  Its mark must have been taken back, or
 * its socket is about to be closed. */
void bulk_forget(struct worker *w);

/* Called by an engine that is about to receive from c, which has CONN_BULK.  Returns the bytes that
 * c may receive in this turn.  0: none; c then runs without input, so that it counts among the
 * receivers that share the turn, and may receive in one of the next turns. */
size_t bulk_share(struct conn *c);
/* Called after bulk_share() when `bytes` have been received. */
void bulk_received(struct conn *c, size_t bytes);
