/* Engine `rdma`: a verb that may wait.
 *
 * To connect a queue pair, the kernel looks for the Ethernet address of the client, and waits for
 * up to a second if no host answers.  So a thread makes the call, and the worker serves meanwhile.
 * The client is answered after that, by the worker.  A connection that ends before is torn down
 * once the call has returned. */
#pragma once
#include "queue.h"

/* Has a thread call run(r), or keeps the call until one of RDMA_STEPS_MAX is free; then calls
 * done(r, rc) on the worker with the result, unless the connection has ended.  0 or -errno. */
int rdma_step_start(struct rdma_conn *r, int (*run)(struct rdma_conn *r),
		    void (*done)(struct rdma_conn *r, int rc));
/* At the worker's end, when its connections are closed: waits for the threads. */
void rdma_steps_await(struct worker *w);
