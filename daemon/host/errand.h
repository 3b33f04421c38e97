/* A call that may never return, as one to a file system whose server is gone: a thread of its own
 * makes it, and is abandoned after a time limit.  Main thread. */
#pragma once
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Embedded in all that the thread needs, which nobody else may touch while it runs. */
struct errand {
	void (*run)(struct errand *e); /* its thread */
	void (*left)(
		struct errand *e); /* its thread, after run(): nobody waits; undo it, free it */
	sem_t done;
	pthread_t thread;
	_Atomic bool is_left; /* by one of the two: the other is the last to have it */
};

/* With run and left set.  0, or -errno: e is still the caller's. */
int errand_start(struct errand *e);
/* True: it is done, and e the caller's again.  False: not by end_ns (CLOCK_MONOTONIC), and e is the
 * thread's.  The watchdog is fed meanwhile. */
bool errand_await(struct errand *e, uint64_t end_ns);
