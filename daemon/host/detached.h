/* A detached call: one that may never return, such as a call to a file system whose server has
 * gone.  A thread of its own makes it, and is abandoned after a time limit.  Main thread, or the
 * doctor's. */
#pragma once
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Embedded in the data that the thread needs; no other thread may touch them while it runs. */
struct detached_call {
	void (*run)(struct detached_call *e); /* runs on the thread */
	/* Runs there after run(), if the call was abandoned: undoes it and frees the data. */
	void (*left)(struct detached_call *e);
	sem_t done;
	pthread_t thread;
	/* Set by the first of the two threads that has finished with the data: the
	 * other one then owns them. */
	_Atomic bool is_left;
};

/* Starts the thread; the caller has set run and left.  0, or -errno, and the caller keeps e. */
int detached_start(struct detached_call *e);
/* Waits until end_ns (CLOCK_MONOTONIC); meanwhile it sends WATCHDOG=1.  True: run() has returned,
 * and the caller owns e again.  False: it has not, and e now belongs to the abandoned thread. */
bool detached_await(struct detached_call *e, uint64_t end_ns);
