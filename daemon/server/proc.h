/* What threads of this process cost, from /proc/self/task.  Main thread only.
 *
 * Works alike for our own threads and for the kernel's that serve a worker's ring: `iou-sqp-PID`
 * (SQPOLL) and `iou-wrk-TID` (io-wq), which Linux shows as threads of this process. */
#pragma once
#include <stdint.h>
#include <sys/types.h>

struct proc_cost {
	uint64_t cpu_user_ns, cpu_system_ns;
	uint64_t switches_voluntary, switches_involuntary;
};

enum { PROC_THREADS_MAX = 1024 };

/* What the kernel's threads of one listener had cost when last seen, so that nothing is lost when
 * they end. */
struct proc_threads {
	struct proc_thread {
		pid_t tid;
		struct proc_cost cost;
	} *seen;
	unsigned count;
};
