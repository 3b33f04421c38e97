/* See served.h. */
#include "served.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "process.h"
#include "util.h"

enum {
	START_MS = 60 * 1000, /* the daemon itself gives up after 10 s for each worker */
	STOP_MS = 10 * 1000,  /* for a drain; then the daemon is killed */
};

char *served_program(void)
{
	char path[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *slash;

	path[MAX(length, (ssize_t)0)] = '\0';
	slash = strrchr(path, '/');
	if (slash && (size_t)(slash + 1 - path) + sizeof("nbserved") <= sizeof(path)) {
		strcpy(slash + 1, "nbserved");
		if (access(path, X_OK) == 0)
			return strdup(path);
	}
	return strdup("nbserved");
}

/* Waits for the line that the daemon prints when it serves.  False: it has ended, or the time is
 * over, or the user has pressed Ctrl-C. */
static bool await_serving(int out)
{
	uint64_t end_ns = clock_ns() + START_MS * (uint64_t)NS_PER_MS;
	struct pollfd p = { .fd = out, .events = POLLIN };
	char text[64 * 1024];
	size_t used = 0;

	while (clock_ns() < end_ns && !child_interrupted() && used < sizeof(text) - 1) {
		ssize_t n =
			poll(&p, 1, 100) > 0 ? read(out, text + used, sizeof(text) - 1 - used) : -1;

		if (n == 0)
			return false;
		used += (size_t)MAX(n, (ssize_t)0);
		text[used] = '\0';
		if (strstr(text, "\nCtrl-C "))
			return true;
	}
	return false;
}

/* Waits for the daemon's end; false: it has not ended within the time. */
static bool wait_end(pid_t pid, unsigned ms, int *ret_status)
{
	uint64_t end_ns = clock_ns() + ms * (uint64_t)NS_PER_MS;

	do {
		if (waitpid(pid, ret_status, WNOHANG) != 0)
			return true; /* it has ended; child_run() may have reaped it already */
		poll(NULL, 0, 1);
	} while (clock_ns() < end_ns);
	return false;
}

/* Ends a daemon that does not serve, unless it has ended by itself with a message.  The
 * result of served_start(). */
static int failed_start(pid_t pid)
{
	int status = 0;

	if (!wait_end(pid, STOP_MS, &status)) {
		served_stop(pid);
		return -ETIMEDOUT;
	}
	process_spare(0);
	return WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : -ECHILD;
}

int served_start(const char *program, char *const *specs, const char *socket, int errors,
		 pid_t *ret_pid)
{
	char *argv[2 * SERVED_SPECS_MAX + 2] = { (char *)program };
	struct process_how how = { .in = -1, .err = errors, .parent_end = SIGTERM, .apart = true };
	unsigned count = 1;
	int out[2], rc;
	bool serves;
	pid_t pid;

	if (pipe2(out, O_CLOEXEC) < 0)
		return -errno;
	for (; *specs && count < 2 * SERVED_SPECS_MAX; specs++) {
		argv[count++] = (char *)"--run";
		argv[count++] = *specs;
	}
	how.out = out[1];
	/* Set for the daemon alone, as COMMAND may start another nbserved. */
	setenv("NBSERVED_SOCKET", socket, true);
	rc = process_start(argv, &how, &pid);
	unsetenv("NBSERVED_SOCKET");
	close(out[1]);
	if (rc < 0) {
		close(out[0]);
		return rc;
	}
	process_spare(pid); /* not a process that compare's command has left behind */
	serves = await_serving(out[0]);
	close(out[0]);
	if (!serves)
		return failed_start(pid);
	*ret_pid = pid;
	return 0;
}

void served_stop(pid_t pid)
{
	int status = 0;

	kill(pid, SIGTERM);
	if (!wait_end(pid, STOP_MS, &status)) {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
	}
	process_spare(0);
}
