/* See served.h. */
#include "served.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "process.h"
#include "util.h"

enum {
	START_MS = 60 * 1000, /* the daemon itself gives up after 10 s for each worker */
	STOP_MS = 10 * 1000,  /* for a drain; then the daemon is killed */
	NOTIFY_NAME_BYTES = sizeof(struct sockaddr_un),
};

/* A socket that gets what the daemon says to its service manager, see sd_notify(3), with a name
 * that the kernel chooses.  -1 with errno. */
static int open_notify(char name[static NOTIFY_NAME_BYTES])
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	socklen_t bytes = sizeof(address.sun_family);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd >= 0 && bind(fd, (struct sockaddr *)&address, bytes) == 0) {
		bytes = sizeof(address);
		if (getsockname(fd, (struct sockaddr *)&address, &bytes) == 0) {
			bytes -= (socklen_t)offsetof(struct sockaddr_un, sun_path);
			snprintf(name, NOTIFY_NAME_BYTES, "@%.*s", (int)bytes - 1,
				 address.sun_path + 1);
			return fd;
		}
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Does a message have the line READY=1? */
static bool is_ready(char *text)
{
	char *rest;

	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		if (!strcmp(line, "READY=1"))
			return true;
	return false;
}

/* Waits until the daemon says that it serves.  False: it has ended, or the time is over, or the
 * user has pressed Ctrl-C. */
static bool await_serving(int notify, pid_t pid)
{
	uint64_t end_ns = clock_ns() + START_MS * (uint64_t)NS_PER_MS;
	struct pollfd p = { .fd = notify, .events = POLLIN };
	char text[4096];

	while (clock_ns() < end_ns && !child_interrupted()) {
		ssize_t n = poll(&p, 1, 20) > 0 ? recv(notify, text, sizeof(text) - 1, 0) : -1;

		text[MAX(n, (ssize_t)0)] = '\0';
		if (is_ready(text))
			return true;
		if (n < 0 && child_has_ended(pid))
			return false;
	}
	return false;
}

/* Waits for the daemon's end; false: it has not ended within the time. */
static bool wait_end(pid_t pid, unsigned ms, int *ret_status)
{
	uint64_t end_ns = clock_ns() + ms * (uint64_t)NS_PER_MS;

	do {
		if (waitpid(pid, ret_status, WNOHANG) != 0)
			return true;
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
	return WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : -ECHILD;
}

int served_start(const char *program, char *const *specs, const char *socket, int errors,
		 pid_t *ret_pid)
{
	char *argv[2 * SERVED_SPECS_MAX + 2] = { (char *)program };
	struct process_how how = { .in = -1, .err = errors, .parent_end = SIGTERM, .apart = true };
	char name[NOTIFY_NAME_BYTES];
	unsigned count = 1;
	int notify = open_notify(name), rc;
	bool serves;
	pid_t pid;

	if (notify < 0)
		return -errno;
	for (; *specs && count < 2 * SERVED_SPECS_MAX; specs++) {
		argv[count++] = (char *)"--run";
		argv[count++] = *specs;
	}
	how.out = open("/dev/null", O_WRONLY | O_CLOEXEC);
	/* Set for the daemon alone, as COMMAND may start another nbserved. */
	setenv("NBSERVED_SOCKET", socket, true);
	setenv("NOTIFY_SOCKET", name, true);
	rc = process_start(argv, &how, &pid);
	unsetenv("NBSERVED_SOCKET");
	unsetenv("NOTIFY_SOCKET");
	if (how.out >= 0)
		close(how.out);
	if (rc < 0) {
		close(notify);
		return rc;
	}
	serves = await_serving(notify, pid);
	close(notify);
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
}
