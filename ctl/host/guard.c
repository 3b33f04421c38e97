/* See guard.h.  A program that was started can end with its parent (PR_SET_PDEATHSIG), but not what
 * the program has started itself: that becomes a child of init when nbctl is killed, and nbctl can
 * do nothing any more.  Only a privileged process has a PID namespace or a cgroup for this. */
#include "guard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "siphash.h"
#include "util.h"

enum { ENVIRON_BYTES = 256 * 1024, KILL_ROUNDS = 40, KILL_STEP_MS = 25 };

static char mark[48]; /* "NBCTL_RUN=0123456789abcdef", of this process's environment from then on */

/* Is the variable in the environment that the process was started with? */
static bool has_mark(const char *pid, char *text)
{
	char path[300];
	ssize_t bytes = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%s/environ", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		bytes = read(fd, text, ENVIRON_BYTES);
		close(fd);
	}
	/* With its NUL: the token of another run may begin with this one. */
	return bytes > 0 && memmem(text, (size_t)bytes, mark, strlen(mark) + 1);
}

/* Kills the process if it has the mark: the pidfd is of the process that is then looked at, and no
 * later one of its id gets the signal.  False: it has no mark. */
static bool kill_if_marked(const char *name, char *text)
{
	pid_t pid = (pid_t)strtol(name, NULL, 10);
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0); /* before Linux 5.3: -1 */
	bool marked = has_mark(name, text);

	if (marked && pidfd >= 0)
		syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
	else if (marked)
		kill(pid, SIGKILL);
	if (pidfd >= 0)
		close(pidfd);
	return marked;
}

/* Kills what has the mark; false: nothing has it. */
static bool kill_marked(char *text)
{
	DIR *all = opendir("/proc");
	struct dirent *entry;
	bool any = false;

	while (all && (entry = readdir(all)))
		if (*entry->d_name >= '1' && *entry->d_name <= '9')
			any |= kill_if_marked(entry->d_name, text);
	if (all)
		closedir(all);
	return any;
}

static void wipe(char **words)
{
	for (; *words; words++)
		memset(*words, 0, strlen(*words));
}

/* The guard: waits for the end of the process that holds the other end of the socket.  It keeps no
 * file open, ignores what a terminal sends, and has neither the name of the process, by which it
 * may be killed, nor its environment, in which another guard may find its own mark. */
static void watch(int fd, char **argv)
{
	static const int ignored[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGPIPE };
	struct timespec pause = { 0, KILL_STEP_MS * NS_PER_MS };
	char *text = malloc(ENVIRON_BYTES), byte;
	ssize_t bytes;

	for (unsigned i = 0; i < ARRAY_SIZE(ignored); i++)
		signal(ignored[i], SIG_IGN);
	wipe(argv);
	wipe(environ);
	prctl(PR_SET_NAME, "guard");
	if (!text || dup2(fd, STDIN_FILENO) < 0)
		_exit(EXIT_FAILURE);
	close_range(STDIN_FILENO + 1, ~0U, 0);
	while ((bytes = read(STDIN_FILENO, &byte, sizeof(byte))) < 0 && errno == EINTR)
		;
	if (bytes > 0) /* it has ended by itself, and all that it had started */
		_exit(EXIT_SUCCESS);
	for (unsigned i = 0; i < KILL_ROUNDS && kill_marked(text); i++)
		nanosleep(&pause, NULL);
	_exit(EXIT_SUCCESS);
}

static int other_end;

/* If there is no guard any more, as when memory was short, this must not end by SIGPIPE. */
static void dismiss(void)
{
	send(other_end, "", 1, MSG_NOSIGNAL);
}

/* Starts the guard, which is no child of this process: that ends all of its children. */
static bool guard_fork(const int ends[2], char **argv)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		close(ends[1]);
		pid = fork();
		if (pid == 0)
			watch(ends[0], argv);
		_exit(pid < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
	}
	if (pid > 0)
		waitpid(pid, &status, 0);
	return pid > 0 && status == 0;
}

void guard_start(char **argv)
{
	struct siphash_key random;
	int ends[2];
	bool started;

	if (*mark || siphash_key_init(&random) < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return;
	snprintf(mark, sizeof(mark), "NBCTL_RUN=%016" PRIx64, random.words[0]);
	started = guard_fork(ends, argv);
	close(ends[0]);
	if (!started) {
		close(ends[1]);
		return;
	}
	other_end = ends[1]; /* open until this process ends */
	putenv(mark);
	atexit(dismiss);
}
