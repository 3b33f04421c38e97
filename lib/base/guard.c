/* See guard.h.  A process that is killed can do nothing any more, so another one must. */
#include "guard.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "util.h"

enum { PATHS_MAX = 2, REMOVE_ROUNDS = 40, REMOVE_STEP_MS = 25 };

static int other_end = -1;

/* ---- In the guard ---- */

static void wipe(char **words)
{
	for (; *words; words++)
		memset(*words, 0, strlen(*words));
}

/* Removes a file, or a directory with its files.  False: it is still there. */
static bool remove_path(const char *path)
{
	struct dirent *entry;
	DIR *files;

	if (unlink(path) == 0 || errno == ENOENT)
		return true;
	files = opendir(path);
	while (files && (entry = readdir(files)))
		unlinkat(dirfd(files), entry->d_name, 0);
	if (files)
		closedir(files);
	return rmdir(path) == 0 || errno == ENOENT;
}

/* A process that is about to end may make a file there once more. */
static void remove_at_last(const char *path)
{
	struct timespec pause = { 0, REMOVE_STEP_MS * NS_PER_MS };

	for (unsigned i = 0; *path && i < REMOVE_ROUNDS && !remove_path(path); i++)
		nanosleep(&pause, NULL);
}

/* Until the process that holds the other end of the socket has ended.  True: other than by exit().
 */
static bool await_end(char paths[PATHS_MAX][PATH_MAX])
{
	char text[PATH_MAX];
	unsigned count = 0;
	bool killed = true;
	ssize_t bytes;

	while ((bytes = recv(STDIN_FILENO, text, sizeof(text) - 1, 0)) != 0) {
		if (bytes < 0 && errno == EINTR)
			continue;
		text[MAX(bytes, 0)] = '\0';
		if (bytes < 0 || !*text) {
			killed = false;
			break;
		}
		strcpy(paths[count++ % PATHS_MAX], text);
	}
	return killed;
}

/* It keeps no file open, ignores what a terminal sends, and has neither the group nor the name of
 * the process, by which it may be killed, nor its environment, in which another guard may find a
 * mark of its own. */
static void watch(int fd, char **argv, void (*killed)(void))
{
	static const int ignored[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGPIPE };
	static char paths[PATHS_MAX][PATH_MAX];

	for (unsigned i = 0; i < ARRAY_SIZE(ignored); i++)
		signal(ignored[i], SIG_IGN);
	setpgid(0, 0);
	wipe(argv);
	wipe(environ);
	prctl(PR_SET_NAME, "guard");
	if (dup2(fd, STDIN_FILENO) < 0)
		_exit(EXIT_FAILURE);
	close_range(STDIN_FILENO + 1, ~0U, 0);
	if (await_end(paths) && killed)
		killed();
	for (unsigned i = 0; i < PATHS_MAX; i++)
		remove_at_last(paths[i]);
	_exit(EXIT_SUCCESS);
}

/* ---- In the process ---- */

/* If there is no guard any more, as when memory was short, this must not end by SIGPIPE. */
static void tell(const char *text, size_t bytes)
{
	if (other_end >= 0)
		send(other_end, text, bytes, MSG_NOSIGNAL);
}

static void dismiss(void)
{
	tell("", 1);
}

/* The guard is no child of this process: that ends all of its children. */
static bool guard_fork(const int ends[2], char **argv, void (*killed)(void))
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		close(ends[1]);
		pid = fork();
		if (pid == 0)
			watch(ends[0], argv, killed);
		_exit(pid < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
	}
	if (pid > 0)
		waitpid(pid, &status, 0);
	return pid > 0 && status == 0;
}

bool guard_start(char **argv, void (*killed)(void))
{
	int ends[2];
	bool started;

	if (other_end >= 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return false;
	started = guard_fork(ends, argv, killed);
	close(ends[0]);
	if (!started) {
		close(ends[1]);
		return false;
	}
	other_end = ends[1]; /* open until this process ends */
	atexit(dismiss);
	return true;
}

void guard_remove(const char *path)
{
	tell(path, strlen(path));
}
