/* By which number the kernel names threads that it makes for a thread of ours.  See ring.h. */
#include <liburing.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "process.h"
#include "ring.h"

/* The number that /proc shows as that of a new ring's thread is the maker's until the thread first
 * runs (Linux 6.7), and SqThreadCpu is -1 until then.  0: it has run, or this kernel shows another.
 */
static pid_t ring_maker(void)
{
	static const char key[] = "\nSqThread:", idle[] = "\nSqThreadCpu:\t-1\n";
	char path[64], text[1024];
	struct io_uring ring;
	const char *line;
	size_t n = 0;
	FILE *f;

	if (io_uring_queue_init(1, &ring, IORING_SETUP_SQPOLL) < 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", ring.ring_fd);
	f = fopen(path, "re");
	if (f) {
		n = fread(text, 1, sizeof(text) - 1, f);
		fclose(f);
	}
	io_uring_queue_exit(&ring);
	text[n] = '\0';
	line = strstr(text, key);
	return line && strstr(text, idle) ? MAX(0, (pid_t)strtol(line + strlen(key), NULL, 10)) : 0;
}

pid_t ring_kernel_tid(void)
{
	enum { ATTEMPTS = 20 };
	cpu_set_t before, here;
	pid_t number = 0;

	if (process_has_kernel_tids())
		return (pid_t)syscall(SYS_gettid);
	/* A new thread inherits the CPUs of its maker: on one CPU it runs after this one. */
	CPU_ZERO(&here);
	CPU_SET((unsigned)sched_getcpu() % CPU_SETSIZE, &here);
	if (sched_getaffinity(0, sizeof(before), &before) < 0 ||
	    sched_setaffinity(0, sizeof(here), &here) < 0)
		return 0;
	for (unsigned i = 0; i < ATTEMPTS && !number; i++) {
		number = ring_maker();
		if (number && number != ring_maker())
			number = 0; /* one of them was a ring's thread's */
	}
	sched_setaffinity(0, sizeof(before), &before);
	return number;
}
