/* The list of listeners, and those that leave it: their end, their locks on files, and the state of
 * their workers for the watchdog.  Owns every struct listener.  Main thread.  See listeners.h. */
#include "listeners.h"

#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "socket.h"
#include "util.h"

enum { FLUSH_WAIT_NS = 50 * NS_PER_MS };

void listeners_begin(struct listeners *all, const struct config *next)
{
	uint64_t now = clock_ns();

	all->next = next;
	all->bind_end_ns = now + SOCKET_WAIT_NS;
	all->tls_end_ns = now + TLS_READ_NS;
}

struct listener *listeners_find(const struct listeners *all, const char *name)
{
	for (unsigned i = 0; i < all->count; i++)
		if (!strcmp(all->list[i]->config->name, name))
			return all->list[i];
	return NULL;
}

/* Steps through all listeners, those of the list and then those that leave it; l NULL: the first.
 */
static struct listener *next_of_all(const struct listeners *all, const struct listener *l)
{
	unsigned i = 0;

	while (l && i < all->count && all->list[i] != l)
		i++;
	if (l && i++ == all->count)
		return l->next;
	return i < all->count ? all->list[i] : all->leaving;
}

void listeners_settle(const struct listeners *all)
{
	for (const struct listener *l = NULL; (l = next_of_all(all, l));)
		if (l->config->service->settle)
			l->config->service->settle();
}

/* ---- Draining and ending ---- */

bool listeners_are_busy(const struct listeners *all)
{
	for (const struct listener *l = NULL; (l = next_of_all(all, l));)
		if (l->state == LISTENER_SERVING || l->state == LISTENER_DRAINING)
			return true;
	return false;
}

/* May clients of l still write to x?  A listener that drains answers requests until its end. */
static bool listener_may_write(const struct listener *l, const struct server_export *x)
{
	if (!l->exports || (l->state != LISTENER_SERVING && l->state != LISTENER_DRAINING))
		return false;
	for (unsigned i = 0; i < l->config->export_count; i++)
		if (l->exports[i] == x)
			return true;
	return false;
}

static bool listeners_may_write(const struct listeners *all, const struct server_export *x)
{
	for (const struct listener *l = NULL; (l = next_of_all(all, l));)
		if (listener_may_write(l, x))
			return true;
	return false;
}

void listeners_unlock(struct listeners *all)
{
	for (unsigned i = 0; i < all->exports.count; i++)
		if (!listeners_may_write(all, all->exports.list[i]))
			export_unlock(all->exports.list[i]);
}

/* A listener whose worker hangs stays on `leaving` for ever: its memory cannot be freed. */
void listeners_stop_one(struct listener *l, uint64_t end_ns)
{
	struct listeners *all = l->all;

	listener_stop(l);
	if (listener_await_stopped(l, end_ns)) {
		listener_free(l);
		return;
	}
	l->state = LISTENER_DRAINED;
	l->next = all->leaving;
	all->leaving = l;
}

/* Runs from the mailbox, never within a reload: l may be freed here. */
void listeners_drained_one(struct listener *l)
{
	struct listeners *all = l->all;
	bool listed = true;

	for (struct listener **p = &all->leaving; *p; p = &(*p)->next)
		if (*p == l) {
			*p = l->next;
			listeners_stop_one(l, clock_ns() + LISTENERS_END_NS);
			listed = false;
			break;
		}
	all->changed(all, listed);
}

void listeners_accept_ended(struct listeners *all)
{
	for (unsigned i = 0; i < all->count; i++)
		listener_accept_waiting(all->list[i]);
}

/* Requests all to stop before it waits for the first, so that they end at the same time.  The
 * wait sends WATCHDOG=1: see listener_await_stopped(). */
bool listeners_stop(struct listeners *all)
{
	uint64_t end_ns = clock_ns() + LISTENERS_END_NS;
	bool ended = true;

	for (struct listener *l = NULL; (l = next_of_all(all, l));)
		listener_stop(l);
	for (struct listener *l = NULL; (l = next_of_all(all, l));)
		ended &= listener_await_stopped(l, end_ns);
	return ended;
}

void listeners_free(struct listeners *all)
{
	/* Freeing may wait for an export to close.  That wait calls listeners_are_alive(), which
	 * reads all listeners of the list, so each is taken off the list first. */
	while (all->count)
		listener_free(all->list[--all->count]);
	while (all->leaving) {
		struct listener *l = all->leaving;

		all->leaving = l->next;
		listener_free(l);
	}
	free(all->list);
	all->list = NULL;
}

/* ---- Workers: counters, life, and the threads that work for them ---- */

/* Asks all workers before it waits for the first. */
void listeners_flush_counters(struct listeners *all)
{
	uint64_t end_ns = clock_ns() + FLUSH_WAIT_NS;

	for (unsigned i = 0; i < all->count; i++)
		for (unsigned j = 0; j < all->list[i]->worker_count; j++)
			worker_flush_begin(&all->list[i]->workers[j]);
	for (unsigned i = 0; i < all->count; i++)
		for (unsigned j = 0; j < all->list[i]->worker_count; j++)
			worker_flush_await(&all->list[i]->workers[j], end_ns);
}

/* Is the worker alive: does it sleep in wait(), or has it made a turn since the last call? */
static bool worker_alive(struct worker *w)
{
	/* `idle` first: a worker that wakes counts the turn before it stops being idle. */
	bool idle = atomic_load_explicit(&w->idle, memory_order_acquire);
	uint64_t turns = stat_load(w->stats.turns);
	bool alive = idle || turns != w->watched_turns;

	w->watched_turns = turns;
	return alive;
}

bool listeners_are_alive(struct listeners *all)
{
	bool alive = true;

	for (unsigned i = 0; i < all->count; i++) {
		struct listener *l = all->list[i];

		for (unsigned j = 0; j < l->worker_count; j++) {
			if (worker_alive(&l->workers[j]))
				continue;
			alive = false;
			log_listener(
				LOG_ERR, l->name,
				"worker %u is stuck: its event loop has not run since the last check; WATCHDOG=1 is withheld, "
				"so systemd may restart the daemon",
				j);
		}
	}
	return alive;
}

/* A thread of a store or the kernel has ended: its cost is added to its worker's.  No listener
 * has it if its worker has ended as well. */
static void retire_thread(void *context, const struct proc_thread *thread)
{
	struct listeners *all = context;

	for (unsigned i = 0; i < all->count; i++) {
		unsigned at = listener_worker_of(all->list[i], thread->worker);

		if (at != LISTENER_NO_WORKER)
			proc_cost_add(&all->list[i]->costs[at].retired, &thread->cost);
	}
}

static bool is_worker(void *context, pid_t tid)
{
	const struct listeners *all = context;

	for (unsigned i = 0; i < all->count; i++)
		if (listener_worker_of(all->list[i], tid) != LISTENER_NO_WORKER)
			return true;
	return false;
}

static pid_t worker_of(void *context, pid_t kernel_tid)
{
	const struct listeners *all = context;

	for (unsigned i = 0; i < all->count; i++)
		for (unsigned j = 0; j < all->list[i]->worker_count; j++)
			if (all->list[i]->workers[j].thread.kernel_tid == kernel_tid)
				return all->list[i]->workers[j].thread.tid;
	return 0;
}

struct proc_threads *listeners_scan_threads(struct listeners *all)
{
	static const struct proc_threads_caller caller = { is_worker, worker_of, retire_thread };
	uint64_t now = clock_ns();

	if (now - all->threads_ns >= NS_PER_MS) {
		unsigned dropped = all->threads.dropped;
		bool unknown = all->threads.unknown;

		proc_threads_scan(&all->threads, &caller, all);
		if (all->threads.dropped && !dropped)
			log_warning("%u threads of stores and the kernel, beyond %d, are not "
				    "counted: the CPU time of listeners lacks theirs",
				    all->threads.dropped, PROC_THREADS_MAX);
		if (all->threads.unknown && !unknown)
			log_warning(
				"in this PID namespace the threads of io_uring cannot be assigned "
				"to workers: the CPU time of listeners lacks theirs; run in the "
				"host's PID namespace");
		all->threads_ns = now;
	}
	return &all->threads;
}

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
