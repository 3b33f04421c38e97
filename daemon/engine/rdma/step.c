/* Engine `rdma`: calls that may wait, each on a thread of its own.  See step.h. */
#include "step.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

#include "conn.h"

enum { RDMA_STEPS_MAX = 32 }; /* threads of a worker at a time */

struct rdma_step {
	struct call call;
	STAILQ_ENTRY(rdma_step) next;
	struct rdma_conn *r;
	int (*run)(struct rdma_conn *r);
	void (*done)(struct rdma_conn *r, int rc);
	pthread_t thread;
	int rc;
};

static void *rdma_step_thread(void *context)
{
	struct rdma_step *step = context;

	step->rc = step->run(step->r);
	mailbox_post(&step->r->conn->worker->mailbox, &step->call);
	return NULL;
}

static void rdma_step_end(struct rdma_step *step, int rc)
{
	struct rdma_conn *r = step->r;

	r->step = NULL;
	if (rdma_conn_is_open(r))
		step->done(r, rc);
	free(step);
}

static void rdma_steps_next(struct rdma *e)
{
	while (!STAILQ_EMPTY(&e->steps) && e->steps_running < RDMA_STEPS_MAX) {
		struct rdma_step *step = STAILQ_FIRST(&e->steps);
		int rc = 0;

		STAILQ_REMOVE_HEAD(&e->steps, next);
		if (rdma_conn_is_open(step->r))
			rc = -pthread_create(&step->thread, NULL, rdma_step_thread, step);
		if (rdma_conn_is_open(step->r) && rc == 0)
			e->steps_running++;
		else
			rdma_step_end(step, rc);
	}
}

static void rdma_step_returned(struct call *call)
{
	struct rdma_step *step = container_of(call, struct rdma_step, call);
	struct rdma *e = step->r->conn->worker->engine_state;

	pthread_join(step->thread, NULL);
	e->steps_running--;
	rdma_step_end(step, step->rc);
	rdma_steps_next(e);
}

int rdma_step_start(struct rdma_conn *r, int (*run)(struct rdma_conn *r),
		    void (*done)(struct rdma_conn *r, int rc))
{
	struct rdma *e = r->conn->worker->engine_state;
	struct rdma_step *step = calloc(1, sizeof(*step));

	if (!step)
		return -ENOMEM;
	*step = (struct rdma_step){
		.call.fn = rdma_step_returned, .r = r, .run = run, .done = done
	};
	r->step = step;
	STAILQ_INSERT_TAIL(&e->steps, step, next);
	rdma_steps_next(e);
	return 0;
}

void rdma_steps_await(struct worker *w)
{
	const struct rdma *e = w->engine_state;
	struct pollfd mailbox = { .fd = w->mailbox.fd, .events = POLLIN };

	while (e->steps_running > 0) {
		poll(&mailbox, 1, -1);
		mailbox_run(&w->mailbox);
	}
}
