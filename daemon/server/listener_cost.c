/* Cost of a listener: the CPU time of its workers, and of the threads that work for them.  Main
 * thread. */
#include "listener.h"
#include "listeners.h"

void listener_cost(struct listener *l, struct proc_cost *ret_cost, struct proc_cost *ret_kernel,
		   unsigned *ret_kernel_threads)
{
	struct proc_threads *threads;

	*ret_kernel = l->retired;
	*ret_kernel_threads = 0;
	*ret_cost = (struct proc_cost){ 0 };
	threads = listeners_scan_threads(l->all);
	for (unsigned i = 0; i < threads->count; i++) {
		const struct proc_thread *thread = &threads->list[i];

		if (!listener_owns(l, thread->worker))
			continue;
		proc_cost_add(thread->kernel ? ret_kernel : ret_cost, &thread->cost);
		*ret_kernel_threads += thread->kernel;
	}
	proc_cost_add(ret_cost, ret_kernel);
	for (unsigned i = 0; i < l->worker_count; i++) {
		proc_cost_update(l->workers[i].thread.tid, &l->costs[i]);
		proc_cost_add(ret_cost, &l->costs[i]);
	}
}
