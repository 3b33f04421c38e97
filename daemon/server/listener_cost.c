/* Cost of a listener: the CPU time of its workers, and of the threads that work for them.  Main
 * thread. */
#include "listener.h"
#include "listeners.h"

void listener_cost(struct listener *l, unsigned first, unsigned count,
		   struct listener_cost *ret_cost)
{
	const struct proc_threads *threads = listeners_scan_threads(l->all);

	*ret_cost = (struct listener_cost){ 0 };
	for (unsigned i = 0; i < threads->count; i++) {
		const struct proc_thread *thread = &threads->list[i];
		unsigned at = listener_worker_of(l, thread->worker);

		if (at < first || at - first >= count)
			continue;
		proc_cost_add(thread->kernel ? &ret_cost->kernel : &ret_cost->all, &thread->cost);
		ret_cost->kernel_threads += thread->kernel;
	}
	for (unsigned i = first; i < first + count; i++)
		proc_cost_add(&ret_cost->kernel, &l->costs[i].retired);
	proc_cost_add(&ret_cost->all, &ret_cost->kernel);
	for (unsigned i = first; i < first + count; i++) {
		proc_cost_update(l->workers[i].thread.tid, &l->costs[i].own);
		proc_cost_add(&ret_cost->all, &l->costs[i].own);
	}
}
