/* CPU time of threads of this process, from their clocks and /proc/self/task.  Main thread only.
 *
 * Covers our own threads and the kernel threads that serve a worker's ring, `iou-sqp-NUMBER`
 * (SQPOLL) and `iou-wrk-NUMBER` (io-wq), which Linux shows as threads of this process.  A store's
 * threads that work for a worker are named `store-TID`. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The sum of the CPU times is exact; Linux samples its split into user and system time. */
struct proc_cost {
	uint64_t cpu_user_ns, cpu_system_ns;
	uint64_t switches_voluntary, switches_involuntary;
};

void proc_cost_add(struct proc_cost *to, const struct proc_cost *from);

/* Brings *cost, zero or an earlier reading of the same thread, up to date; no part of it decreases.
 * 0 or -errno (-ENOENT: there is no such thread). */
int proc_cost_update(pid_t tid, struct proc_cost *cost);

/* Each scan compares each thread with all that are known. */
enum { PROC_THREADS_MAX = 1024 };

/* A thread that works for a worker, usually a kernel thread, and its cost at the last scan. */
struct proc_thread {
	pid_t tid, worker; /* worker: TID of the thread that it works for */
	bool kernel;
	struct proc_cost cost;
	bool seen;
};

struct proc_threads {
	struct proc_thread list[PROC_THREADS_MAX];
	unsigned count;
	unsigned dropped; /* in the last scan: threads beyond the list, whose cost is not counted */
	/* In some scan a PID namespace hid the worker of a kernel thread, whose cost is not
	 * counted. */
	bool unknown;
};

/* The caller's functions; each gets its context. */
struct proc_threads_caller {
	/* Is it a worker, which works for no other?  Its name is not read then. */
	bool (*is_worker)(void *context, pid_t tid);
	/* In a PID namespace: the TID of the worker that has this number outside; 0: none.  See
	 * ring_kernel_tid(). */
	pid_t (*worker_of)(void *context, pid_t kernel_tid);
	/* A thread has ended: it is forgotten, with its last known cost. */
	void (*retire)(void *context, const struct proc_thread *thread);
};

/* Reads the list of threads again. */
void proc_threads_scan(struct proc_threads *t, const struct proc_threads_caller *caller,
		       void *context);

/* `iou-wrk-123`, `iou-sqp-123` and `store-123` give 123, the name of any other thread 0;
 * *ret_kernel: true for a kernel thread.  Pure. */
pid_t proc_thread_owner(const char *comm, bool *ret_kernel);
