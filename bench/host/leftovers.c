/* See leftovers.h.  A program that was started can end with its parent (PR_SET_PDEATHSIG), but not
 * what the program has started itself: that becomes a child of init when nbbench is killed, and
 * nbbench can do nothing any more.  Only a privileged process has a PID namespace or a cgroup for
 * this. */
#include "leftovers.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "guard.h"
#include "siphash.h"
#include "util.h"

enum { ENVIRON_BYTES = 256 * 1024, KILL_ROUNDS = 40, KILL_STEP_MS = 25, EMPTY_ROUNDS = 4 };

static char mark[48]; /* "NBBENCH_RUN=0123456789abcdef" */

/* Is the variable in the environment that the process was started with?  *ret_empty: it has none,
 * maybe since it is within execve(2); no kernel thread. */
static bool has_mark(const char *pid, char *text, bool *ret_empty)
{
	char path[300], program[1];
	ssize_t bytes = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%s/environ", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		bytes = read(fd, text, ENVIRON_BYTES);
		close(fd);
	}
	snprintf(path, sizeof(path), "/proc/%s/exe", pid);
	*ret_empty = bytes == 0 && readlink(path, program, sizeof(program)) > 0;
	/* With its NUL: the token of another run may begin with this one. */
	return bytes > 0 && memmem(text, (size_t)bytes, mark, strlen(mark) + 1);
}

/* Kills the process if it has the mark: the pidfd is of the process that is then looked at, and no
 * later one of its id gets the signal.  False: it has no mark. */
static bool kill_if_marked(const char *name, char *text, bool *ret_empty)
{
	pid_t pid = (pid_t)strtol(name, NULL, 10);
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0); /* before Linux 5.3: -1 */
	bool marked = has_mark(name, text, ret_empty);

	if (marked && pidfd >= 0)
		syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
	else if (marked)
		kill(pid, SIGKILL);
	if (pidfd >= 0)
		close(pidfd);
	return marked;
}

/* Kills what has the mark; false: nothing has it.  *ret_empty: there may be more. */
static bool kill_marked(char *text, bool *ret_empty)
{
	DIR *all = opendir("/proc");
	struct dirent *entry;
	bool any = false, empty;

	*ret_empty = false;
	while (all && (entry = readdir(all)))
		if (*entry->d_name >= '1' && *entry->d_name <= '9') {
			any |= kill_if_marked(entry->d_name, text, &empty);
			*ret_empty |= empty;
		}
	if (all)
		closedir(all);
	return any;
}

/* Also in the guard. */
void leftovers_kill(void)
{
	struct timespec pause = { 0, KILL_STEP_MS * NS_PER_MS };
	char *text = malloc(ENVIRON_BYTES);
	bool empty;

	for (unsigned i = 0; *mark && text && i < KILL_ROUNDS; i++) {
		if (!kill_marked(text, &empty) && !(empty && i < EMPTY_ROUNDS))
			break;
		nanosleep(&pause, NULL);
	}
	free(text);
}

void leftovers_guard(char **argv)
{
	struct siphash_key random;

	if (*mark)
		return;
	if (siphash_key_init(&random) < 0)
		abort();
	snprintf(mark, sizeof(mark), "NBBENCH_RUN=%016" PRIx64, random.words[0]);
	guard_start(argv, leftovers_kill);
}

void leftovers_mark(bool marked)
{
	if (marked)
		putenv(mark);
	else
		unsetenv("NBBENCH_RUN");
}
