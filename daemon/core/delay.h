/* Answers that are held back (`delay`, `stall`): the service answers late, by a timer.
 *
 * The listener's workers then have a copy of their service and of their engine, in which a few
 * functions are those of delay.c: output that run() has put into tx stays with the connection until
 * it is due, and only then does the engine see it.  While run() is called the held output is in tx,
 * like output to a slow reader, so neither services nor engines know of delays.  Outside of run()
 * it counts as I/O in flight (conn_io_begin()), which keeps the connection from being freed.  A
 * listener without these keys executes nothing of this file.
 *
 * All output of one run() is due together, and never before earlier output of the connection.  The
 * times are CLOCK_MONOTONIC's, and so is the phase of stalls: it is the same for all workers and
 * listeners of a host.  Worker's thread, but for delay_init() and delay_fini(). */
#pragma once
#include <stdint.h>

#include "worker_options.h"

enum {
	/* Outputs (of one run() each) that one connection may have held back; with more
	 * its service does not run. */
	DELAY_MARKS_MAX = 4096,
	DELAY_CUT = 10, /* an exponential delay is at most this many times its mean */
};

struct worker;

/* When an answer made at now_ns is due: never before that.  random: 64 random bits.  Pure. */
uint64_t delay_due_ns(const struct worker_options *options, uint64_t now_ns, uint64_t random);

/* Has the worker, which has not started, hold answers back if its options say so.  0 or -ENOMEM. */
int delay_init(struct worker *w);
/* The worker has ended, and has no connections.  No error if delay_init() was not called. */
void delay_fini(struct worker *w);
