/* See child.h. */
#include "child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpus.h"
#include "leftovers.h"
#include "must.h"
#include "process.h"
#include "text.h"
#include "util.h"

/* The command is a child of nbbench.  It is marked, so whatever it starts can be found and killed
 * at the end, however often it forks.  If nbbench itself is killed, the kernel kills the command
 * (parent_end), and the guard the rest. */

enum {
	CHILD_SAMPLE_MS = 50, /* interval of samples of its threads */
	CHILD_PEAK_MS = 2 * CHILD_SAMPLE_MS,
	CHILD_TASKS_MAX = 1024, /* threads and processes examined per sample */
	CHILD_GRACE_MS = 5000,  /* from a signal to the kill of a command that has not ended */
};

static const int caught[] = { SIGINT, SIGTERM, SIGQUIT, SIGHUP };
static struct sigaction before[ARRAY_SIZE(caught)];
static volatile sig_atomic_t interrupted; /* the number of the first signal; 0: none came */
static volatile sig_atomic_t running;     /* a command runs */
static volatile sig_atomic_t forward;     /* the signal that watch() has to send to it; 0: none */

/* Handles the signals in caught[].  Only notes the signal: pass_signal() acts on it in watch()'s
 * loop, where it is safe to read /proc and to kill.
 *
 * The first signal ends the command.  Ctrl-C at the terminal (SI_KERNEL) has reached the command
 * already, as it is in the same process group, and a second copy might make it end less cleanly.
 * The exceptions are signals sent by kill(), and SIGHUP, which the kernel may send to the session's
 * leader alone: these are forwarded.  The second signal kills a command that ignores the first; if
 * none runs, nbbench is waiting for something else, such as the daemon, and dies of the signal. */
static void on_signal(int number, siginfo_t *info, void *context)
{
	bool second = interrupted;

	(void)context;
	if (second && !running) {
		signal(number, SIG_DFL);
		raise(number);
	} else if (second) {
		forward = SIGKILL;
	} else {
		interrupted = number;
		forward = running && info->si_code == SI_KERNEL && number != SIGHUP ? 0 : number;
	}
}

/* SIGHUP stays ignored if it was when nbbench started, as under nohup(1). */
void child_catch_signals(void)
{
	struct sigaction action = { .sa_sigaction = on_signal,
				    .sa_flags = SA_SIGINFO | SA_RESTART };

	interrupted = forward = 0;
	for (unsigned i = 0; i < ARRAY_SIZE(caught); i++) {
		sigaction(caught[i], NULL, &before[i]);
		if (caught[i] != SIGHUP || before[i].sa_handler != SIG_IGN)
			sigaction(caught[i], &action, NULL);
	}
}

void child_release_signals(void)
{
	for (unsigned i = 0; i < ARRAY_SIZE(caught); i++)
		sigaction(caught[i], &before[i], NULL);
}

int child_interrupted(void)
{
	return interrupted;
}

/* ---- The end of the command ---- */

bool child_has_ended(pid_t pid)
{
	siginfo_t info = { 0 };

	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
	       info.si_pid == pid;
}

struct ends {
	uint64_t timeout_ns; /* when it is sent SIGTERM, by --timeout; UINT64_MAX: never */
	uint64_t kill_ns;    /* when it is killed; UINT64_MAX: it has not been told to end yet */
};

/* Acts on signals that have come and on the timeout: tells the command to end, and kills it with
 * all that it has started when it has not done so within CHILD_GRACE_MS, or upon a second signal.
 */
static void pass_signal(pid_t pid, struct ends *ends, struct child *child)
{
	uint64_t now_ns = clock_ns();
	bool late = now_ns > ends->timeout_ns;

	if (late && !child->timed_out && !interrupted) {
		child->timed_out = true;
		kill(pid, SIGTERM);
	}
	if ((interrupted || child->timed_out) && ends->kill_ns == UINT64_MAX)
		ends->kill_ns = now_ns + (uint64_t)CHILD_GRACE_MS * NS_PER_MS;
	if (forward == SIGKILL || now_ns > ends->kill_ns) {
		kill(pid, SIGKILL); /* also without the mark, if it has emptied its environment */
		leftovers_kill();
	} else if (forward)
		kill(pid, forward);
	forward = 0;
}

/* Tells the command to end because the measurement has failed (WATCH_END). */
static void give_up(pid_t pid, struct ends *ends)
{
	if (ends->kill_ns != UINT64_MAX)
		return;
	kill(pid, SIGTERM);
	ends->kill_ns = clock_ns() + (uint64_t)CHILD_GRACE_MS * NS_PER_MS;
}

/* ---- The threads of the command ---- */

/* CPU time of each thread at one moment. */
struct tasks {
	uint64_t at_ns; /* 0: never */
	unsigned count;
	struct task {
		long tid;
		uint64_t ns;
	} list[CHILD_TASKS_MAX];
};

/* What the threads had used at three looks at /proc.  A generator's start (reading files, filling
 * buffers) may use more CPU time than its load: so the time up to the last look before the load
 * is taken off. */
struct look {
	struct tasks now;    /* the last look of all */
	struct tasks before; /* the last look before the load */
	struct tasks peak;   /* the look at which the current interval of CHILD_PEAK_MS began */
	struct use use;
};

static uint64_t used_in(const struct tasks *tasks, long tid)
{
	for (unsigned i = 0; i < tasks->count; i++)
		if (tasks->list[i].tid == tid)
			return tasks->list[i].ns;
	return 0;
}

static void copy_tasks(struct tasks *to, const struct tasks *from)
{
	to->at_ns = from->at_ns;
	to->count = from->count;
	memcpy(to->list, from->list, from->count * sizeof(from->list[0]));
}

static void find_peak(struct look *look)
{
	uint64_t span_ns = look->now.at_ns - look->peak.at_ns;

	if (look->peak.at_ns && span_ns < CHILD_PEAK_MS * NS_PER_MS)
		return;
	for (unsigned i = 0; look->peak.at_ns && i < look->now.count; i++) {
		const struct task *task = &look->now.list[i];
		uint64_t past_ns = used_in(&look->peak, task->tid);

		if (task->ns > past_ns)
			look->use.peak =
				MAX(look->use.peak, (double)(task->ns - past_ns) / (double)span_ns);
	}
	copy_tasks(&look->peak, &look->now);
}

/* Reads a small file of /proc whole; false: the task has ended, or Linux lacks the file. */
static bool read_small(const char *path, char *text, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, bytes - 1);

	if (fd >= 0)
		close(fd);
	if (n < 0)
		return false;
	text[n] = '\0';
	return true;
}

static void look_at_process(pid_t pid, struct look *look);

/* /proc/PID/task/TID: its CPU time, then the processes that it has started. */
static void look_at_task(pid_t pid, const char *tid, struct look *look)
{
	char path[96], text[4096], *next = text, *end;
	unsigned long long ns;

	if (look->now.count == CHILD_TASKS_MAX)
		return;
	snprintf(path, sizeof(path), "/proc/%d/task/%.16s/schedstat", (int)pid, tid);
	if (read_small(path, text, sizeof(text)) && sscanf(text, "%llu", &ns) == 1) {
		struct task task = { strtol(tid, NULL, 10), ns };
		uint64_t past_ns = used_in(&look->before, task.tid);

		look->now.list[look->now.count++] = task;
		if (ns > past_ns)
			look->use.busiest_ns = MAX(look->use.busiest_ns, ns - past_ns);
	}
	snprintf(path, sizeof(path), "/proc/%d/task/%.16s/children", (int)pid, tid);
	if (!read_small(path, text, sizeof(text)))
		return;
	for (long child; (child = strtol(next, &end, 10)) > 0 && end != next; next = end)
		look_at_process((pid_t)child, look);
}

/* CPU time of a process with its threads that have ended, and of the children it has waited for. */
static uint64_t process_cpu_ns(pid_t pid)
{
	char path[64], text[1024];
	unsigned long long ticks[4];
	const char *name_end;
	long tick = sysconf(_SC_CLK_TCK);

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (tick <= 0 || !read_small(path, text, sizeof(text)) || !(name_end = strrchr(text, ')')))
		return 0;
	/* proc(5): utime, stime, cutime and cstime are the fields 14 to 17; the name is field 2. */
	if (sscanf(name_end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu",
		   &ticks[0], &ticks[1], &ticks[2], &ticks[3]) != 4)
		return 0;
	return (ticks[0] + ticks[1] + ticks[2] + ticks[3]) * (NS_PER_S / (uint64_t)tick);
}

static void look_at_process(pid_t pid, struct look *look)
{
	char path[64];
	struct dirent *entry;
	DIR *tasks;

	look->use.cpu_ns += process_cpu_ns(pid);
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = look->now.count < CHILD_TASKS_MAX ? opendir(path) : NULL;
	while (tasks && (entry = readdir(tasks)))
		if (entry->d_name[0] != '.')
			look_at_task(pid, entry->d_name, look);
	if (tasks)
		closedir(tasks);
}

/* Looks at all threads of the command and of its descendants.  busiest_ns never falls: a thread
 * that has ended since the last look may have been the busiest. */
static void look_at(pid_t pid, struct look *look)
{
	look->now.count = 0;
	look->now.at_ns = clock_ns();
	look->use.cpu_ns = 0;
	look_at_process(pid, look);
	find_peak(look);
}

/* There was no load until now: what the threads have used so far was their start. */
static void look_forget(struct look *look)
{
	copy_tasks(&look->before, &look->now);
	copy_tasks(&look->peak, &look->now);
	look->use.busiest_ns = 0;
	look->use.peak = 0;
}

/* ---- The output of the command ---- */

struct sink {
	int fd;                   /* of the pipe; -1: closed, or no pipe */
	bool show;                /* also print it on stdout */
	const struct watcher *to; /* gets the output; NULL: it is kept here */
	bool errors;              /* it is the command's stderr */
	FILE *kept;               /* writes `text` */
	char *text;
};

static void sink_read(struct sink *s)
{
	char data[16384];
	ssize_t n = read(s->fd, data, sizeof(data));

	if (n < 0 && errno == EINTR)
		return;
	if (n <= 0) {
		close(s->fd);
		s->fd = -1;
		return;
	}
	if (s->to)
		s->to->output(s->to->context, s->errors, data, (size_t)n);
	else if (ftell(s->kept) < CHILD_OUTPUT_MAX)
		fwrite(data, 1, (size_t)n, s->kept);
	if (s->show) {
		fwrite(data, 1, (size_t)n, stdout);
		fflush(stdout);
	}
}

/* ---- Running ---- */

/* Runs the loop until the command has ended: reads its output, passes signals on, looks at its
 * threads, and calls the watcher.  Does not wait for the end of its output, as a descendant
 * that the command has left behind may keep a pipe open: child_run() kills these and then
 * reads the rest. */
static void watch(pid_t pid, struct child *child, struct sink *out, struct sink *err,
		  unsigned timeout_ms, const struct watcher *watcher)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct look *look = must(calloc(1, sizeof(*look)));
	struct ends ends = { UINT64_MAX, UINT64_MAX };
	enum watch_answer answer;
	cpu_set_t cpus;
	bool ended = false;

	if (timeout_ms)
		ends.timeout_ns = clock_ns() + timeout_ms * (uint64_t)NS_PER_MS;
	while (!ended) {
		struct pollfd fds[] = { { pidfd, POLLIN, 0 },
					{ out->fd, POLLIN, 0 },
					{ err->fd, POLLIN, 0 },
					{ watcher ? watcher->fd(watcher->context) : -1, POLLIN,
					  0 } };

		poll(fds, ARRAY_SIZE(fds),
		     MIN(CHILD_SAMPLE_MS,
			 watcher ? watcher->wait_ms(watcher->context) : CHILD_SAMPLE_MS));
		/* There is no pidfd_open() before Linux 5.3. */
		ended = pidfd < 0 ? child_has_ended(pid) : fds[0].revents != 0;
		if (fds[1].revents)
			sink_read(out);
		if (fds[2].revents)
			sink_read(err);
		if (ended)
			break;
		pass_signal(pid, &ends, child);
		if (!fds[3].revents) /* the watcher's input may come too often for /proc */
			look_at(pid, look);
		answer = watcher ? watcher->look(watcher->context, &look->use) : WATCH_GO;
		if (answer == WATCH_IDLE)
			look_forget(look);
		else if (answer == WATCH_END)
			give_up(pid, &ends);
		child->use = look->use;
		if (cpus_of(pid, &cpus) > 0) /* not of a thread that has ended */
			child->cpus = cpus;
	}
	free(look);
	if (pidfd >= 0)
		close(pidfd);
}

static void drain(struct sink *s)
{
	struct pollfd fd = { s->fd, POLLIN, 0 };

	while (s->fd >= 0 && poll(&fd, 1, 0) > 0)
		sink_read(s);
	if (s->fd >= 0)
		close(s->fd);
	fclose(s->kept);
}

/* Makes a pipe for the child's output; false: failed, and the child inherits our output. */
static bool sink_open(struct sink *s, int *ret_write)
{
	int fds[2];

	*ret_write = -1;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return false;
	s->fd = fds[0];
	*ret_write = fds[1];
	return true;
}

static uint64_t timeval_ns(struct timeval t)
{
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_usec * NS_PER_US;
}

static void reap(pid_t pid, struct child *child, uint64_t start_ns)
{
	uint64_t seen_ns = child->use.cpu_ns;
	struct rusage usage = { 0 };

	while (wait4(pid, &child->status, 0, &usage) < 0 && errno == EINTR)
		;
	child->wall_ns = clock_ns() - start_ns;
	child->use.cpu_ns = timeval_ns(usage.ru_utime) + timeval_ns(usage.ru_stime);
	if (seen_ns) /* the share of the busiest thread at the last look holds to the end */
		child->use.busiest_ns = (uint64_t)((double)child->use.busiest_ns *
						   (double)child->use.cpu_ns / (double)seen_ns);
}

void child_run(char *const *argv, enum child_show show, bool keep, unsigned timeout_ms,
	       const struct watcher *watcher, struct child *ret)
{
	struct sink out = { .fd = -1, .show = show == CHILD_SHOW }, err = { .fd = -1 };
	bool hold = show != CHILD_SHOW, pass = show == CHILD_PASS;
	int out_write = -1, err_write = -1;
	uint64_t start_ns;
	struct process_how how = { .in = -1, .parent_end = SIGKILL };
	pid_t pid;

	*ret = (struct child){ 0 };
	out.kept = text_open(&out.text);
	err.kept = text_open(&err.text);
	out.to = err.to = pass ? watcher : NULL;
	err.errors = true;
	if (hold || keep)
		sink_open(&out, &out_write);
	if (hold)
		sink_open(&err, &err_write);
	how.out = out_write;
	how.err = err_write;
	start_ns = clock_ns();
	if (pass || show == CHILD_HIDE)
		how.in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	leftovers_mark(true);
	ret->status = process_start(argv, &how, &pid);
	leftovers_mark(false);
	if (how.in >= 0)
		close(how.in);
	if (out_write >= 0)
		close(out_write);
	if (err_write >= 0)
		close(err_write);
	if (ret->status == 0) {
		running = 1;
		watch(pid, ret, &out, &err, timeout_ms, watcher);
		running = 0;
		reap(pid, ret, start_ns);
		leftovers_kill(); /* they would load the listeners of the next visit */
	}
	drain(&out);
	drain(&err);
	if (show == CHILD_SHOW_ON_FAILURE && ret->status > 0 && !interrupted) {
		fputs(out.text, stderr);
		fputs(err.text, stderr);
	}
	free(err.text);
	if (keep)
		ret->output = out.text;
	else
		free(out.text);
}

void child_free(struct child *child)
{
	free(child->output);
	child->output = NULL;
}
