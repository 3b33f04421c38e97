/* Detached calls.  One atomic exchange decides which of the two threads frees the data: the first
 * one to set is_left leaves that to the other.  See detached.h. */
#include "detached.h"

#include "watchdog.h"

static void *detached_thread(void *context)
{
	struct detached_call *e = context;

	e->run(e);
	if (atomic_exchange(&e->is_left, true))
		e->left(e);
	else
		sem_post(&e->done);
	return NULL;
}

int detached_start(struct detached_call *e)
{
	int rc;

	sem_init(&e->done, 0, 0);
	atomic_init(&e->is_left, false);
	rc = -pthread_create(&e->thread, NULL, detached_thread, e);
	if (rc < 0)
		sem_destroy(&e->done);
	return rc;
}

bool detached_await(struct detached_call *e, uint64_t end_ns)
{
	pthread_t thread = e->thread;

	if (!watchdog_wait(&e->done, end_ns) && !atomic_exchange(&e->is_left, true)) {
		pthread_detach(thread); /* e is the thread's now, which may have freed it */
		return false;
	}
	pthread_join(thread, NULL);
	sem_destroy(&e->done);
	return true;
}
