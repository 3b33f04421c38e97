/* CPU time and context switches of threads, read from /proc.  See proc.h. */
#include "proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "process.h"
#include "reserve.h"
#include "util.h"

void proc_cost_add(struct proc_cost *to, const struct proc_cost *from)
{
	to->cpu_user_ns += from->cpu_user_ns;
	to->cpu_system_ns += from->cpu_system_ns;
	to->switches_voluntary += from->switches_voluntary;
	to->switches_involuntary += from->switches_involuntary;
}

/* Reads /proc/self/task/TID/name as a string. */
static int proc_read(pid_t tid, const char *name, char *text, size_t size)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/%s", (int)tid, name);
	do
		fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd < 0 && reserve_use(errno));
	if (fd < 0)
		return -errno;
	n = read(fd, text, size - 1);
	close(fd);
	reserve_refill();
	if (n <= 0)
		return n < 0 ? -errno : -ENODATA;
	text[n] = '\0';
	return 0;
}

/* proc_pid_stat(5): fields 14 and 15, after the name, which may hold anything but ends
 * with the last parenthesis. */
static int proc_ticks(pid_t tid, uint64_t *ret_user, uint64_t *ret_system)
{
	char text[1024], *end;
	unsigned long long user, sys;
	int rc = proc_read(tid, "stat", text, sizeof(text));

	if (rc < 0)
		return rc;
	end = strrchr(text, ')');
	if (!end || sscanf(end, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user,
			   &sys) != 2)
		return -EIO;
	*ret_user = user;
	*ret_system = sys;
	return 0;
}

/* The CPU time of a thread until now.  That in /proc/TID/schedstat is the same, but of a thread
 * that is running until its last clock tick only.  The clock's id is as the kernel encodes it:
 * pthread_getcpuclockid() does not know the threads of a ring. */
static int proc_cpu_ns(pid_t tid, uint64_t *ret_ns)
{
	clockid_t clock = (clockid_t)(~(unsigned)tid << 3 | 6);
	struct timespec used;

	if (clock_gettime(clock, &used) < 0)
		return -errno;
	*ret_ns = (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec;
	return 0;
}

static uint64_t proc_status_number(const char *status, const char *key)
{
	const char *line = strstr(status, key);

	return line ? strtoull(line + strlen(key), NULL, 10) : 0;
}

/* Splits total_ns in the ratio user : system, so that neither falls below the earlier reading. */
static void proc_split(struct proc_cost *cost, uint64_t total_ns, uint64_t user, uint64_t sys)
{
	uint64_t before_ns = cost->cpu_user_ns + cost->cpu_system_ns;
	uint64_t passed_ns = total_ns > before_ns ? total_ns - before_ns : 0;
	uint64_t user_ns = before_ns + passed_ns;

	if (user + sys)
		user_ns = (uint64_t)((double)user_ns * ((double)user / (double)(user + sys)));
	user_ns = MAX(user_ns, cost->cpu_user_ns);
	user_ns = MIN(user_ns, cost->cpu_user_ns + passed_ns);
	cost->cpu_user_ns = user_ns;
	cost->cpu_system_ns = before_ns + passed_ns - user_ns;
}

int proc_cost_update(pid_t tid, struct proc_cost *cost)
{
	uint64_t user, sys, total_ns = 0;
	char text[4096];
	int rc = proc_ticks(tid, &user, &sys);

	if (rc == 0)
		rc = proc_cpu_ns(tid, &total_ns);
	if (rc < 0)
		return rc;
	proc_split(cost, total_ns, user, sys);
	rc = proc_read(tid, "status", text, sizeof(text));
	if (rc < 0)
		return rc;
	cost->switches_voluntary = proc_status_number(text, "\nvoluntary_ctxt_switches:");
	cost->switches_involuntary = proc_status_number(text, "nonvoluntary_ctxt_switches:");
	return 0;
}

pid_t proc_thread_owner(const char *comm, bool *ret_kernel)
{
	static const struct {
		const char *prefix;
		bool kernel;
	} names[] = { { "iou-wrk-", true }, { "iou-sqp-", true }, { "store-", false } };

	for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
		size_t length = strlen(names[i].prefix);

		if (strncmp(comm, names[i].prefix, length) != 0)
			continue;
		*ret_kernel = names[i].kernel;
		return (pid_t)strtol(comm + length, NULL, 10);
	}
	return 0;
}

static struct proc_thread *proc_threads_find(struct proc_threads *t, pid_t tid)
{
	for (unsigned i = 0; i < t->count; i++)
		if (t->list[i].tid == tid)
			return &t->list[i];
	return NULL;
}

static void proc_threads_see(struct proc_threads *t, const struct proc_threads_caller *caller,
			     void *context, pid_t tid)
{
	struct proc_thread *thread = proc_threads_find(t, tid);
	char comm[64];
	pid_t worker;
	bool kernel;

	if (!thread) {
		if (caller->is_worker(context, tid) ||
		    proc_read(tid, "comm", comm, sizeof(comm)) < 0)
			return;
		worker = proc_thread_owner(comm, &kernel);
		if (!worker)
			return;
		if (kernel && !process_has_kernel_tids())
			worker = caller->worker_of(context, worker);
		t->unknown |= !worker;
		if (!worker)
			return;
		if (t->count == PROC_THREADS_MAX) {
			t->dropped++;
			return;
		}
		thread = &t->list[t->count++];
		*thread = (struct proc_thread){ .tid = tid, .worker = worker, .kernel = kernel };
	}
	if (proc_cost_update(tid, &thread->cost) == 0)
		thread->seen = true;
}

/* An io-wq thread of a ring with SQPOLL works for the SQPOLL thread, which works for the worker. */
static void proc_threads_resolve(struct proc_threads *t)
{
	for (unsigned i = 0; i < t->count; i++) {
		const struct proc_thread *sqp = proc_threads_find(t, t->list[i].worker);

		if (sqp)
			t->list[i].worker = sqp->worker;
	}
}

void proc_threads_scan(struct proc_threads *t, const struct proc_threads_caller *caller,
		       void *context)
{
	DIR *dir;
	const struct dirent *entry;
	unsigned kept = 0;

	do
		dir = opendir("/proc/self/task");
	while (!dir && reserve_use(errno));
	if (!dir)
		return; /* the costs keep their last values */
	t->dropped = 0;
	for (unsigned i = 0; i < t->count; i++)
		t->list[i].seen = false;
	while ((entry = readdir(dir)) != NULL)
		if (entry->d_name[0] != '.')
			proc_threads_see(t, caller, context,
					 (pid_t)strtol(entry->d_name, NULL, 10));
	closedir(dir);
	reserve_refill();
	proc_threads_resolve(t);
	for (unsigned i = 0; i < t->count; i++) {
		if (t->list[i].seen)
			t->list[kept++] = t->list[i];
		else
			caller->retire(context, &t->list[i]);
	}
	t->count = kept;
}
