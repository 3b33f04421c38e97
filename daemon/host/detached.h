/* An detached: a call that may never return, such as one to a file system whose server is gone.  A
 * thread of its own makes it, and is abandoned after a time limit.  Main thread. */
#pragma once
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Embedded in the data that the thread needs, which no other thread may touch while it runs. */
struct detached_call {
	void (*run)(struct detached_call *e);  /* on its thread */
	void (*left)(struct detached_call *e); /* on its thread after run(), if abandoned: undoes
					   and frees it */
	sem_t done;
	pthread_t thread;
	/* Set by the first of the two threads that is done with it: the other then owns it. */
	_Atomic bool is_left;
};

/* Starts the thread; run and left are set.  0, or -errno, and e stays the caller's. */
int detached_start(struct detached_call *e);
/* Waits until end_ns (CLOCK_MONOTONIC), feeding the watchdog.  True: run() has returned, and the
 * caller owns e again.  False: it has not, and e now belongs to the abandoned thread. */
bool detached_await(struct detached_call *e, uint64_t end_ns);
