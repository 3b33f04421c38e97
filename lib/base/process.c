/* Child processes, by vfork() and exec.  See process.h. */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs in the child, which shares the parent's memory (vfork) until it runs the program: only
 * system calls are allowed here. */
static int become(char *const *argv, const struct process_how *how, pid_t parent)
{
	struct sigaction action;
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, how->parent_end);
	if (getppid() != parent) /* the parent ended before the kernel knew of the signal */
		_exit(EXIT_FAILURE);
	for (int i = 1; i < NSIG; i++) /* no handler of the parent may run from here to execvp() */
		if (i == SIGPIPE ||
		    (sigaction(i, NULL, &action) == 0 && action.sa_handler != SIG_IGN))
			signal(i, SIG_DFL);
	if (how->ignores_interrupts) {
		signal(SIGINT, SIG_IGN);
		signal(SIGQUIT, SIG_IGN);
	}
	sigemptyset(&none);
	if ((how->in >= 0 && dup2(how->in, STDIN_FILENO) < 0) ||
	    (how->out >= 0 && dup2(how->out, STDOUT_FILENO) < 0) ||
	    (how->err >= 0 && dup2(how->err, STDERR_FILENO) < 0) ||
	    (how->apart && setpgid(0, 0) < 0))
		return errno;
	sigprocmask(SIG_SETMASK, &none, NULL);
	execvp(argv[0], argv);
	return errno;
}

/* posix_spawn() can set no signal for the parent's end, and fork() would copy the page tables of a
 * daemon with large exports.  So the child is made by vfork(). */
int process_start(char *const *argv, const struct process_how *how, pid_t *ret_pid)
{
	pid_t parent = getpid(), pid;
	int error = 0, ends[2];
	sigset_t all, before;

	/* Carries the errno of a program that could not be started; exec closes it. */
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	sigfillset(&all); /* the child must not run the parent's handlers, on the parent's memory */
	sigprocmask(SIG_SETMASK, &all, &before);
	pid = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork) */
	if (pid == 0) {
		/* become() makes system calls alone, and writes nothing that the parent reads. */
		/* NOLINTNEXTLINE(clang-analyzer-unix.Vfork) */
		error = become(argv, how, parent);
		/* NOLINTNEXTLINE(clang-analyzer-unix.Vfork) */
		_exit(write(ends[1], &error, sizeof(error)) < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
	}
	if (pid < 0)
		error = errno;
	close(ends[1]);
	if (pid > 0 && read(ends[0], &error, sizeof(error)) == sizeof(error))
		waitpid(pid, NULL, 0);
	else if (pid > 0)
		error = 0;
	close(ends[0]);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (!error)
		*ret_pid = pid;
	return -error;
}

char *process_program(const char *name)
{
	static const char *const folders[] = { "", "../sbin/", "../bin/" };
	char own[PATH_MAX], path[PATH_MAX + NAME_MAX];
	ssize_t length = readlink("/proc/self/exe", own, sizeof(own) - 1);
	char *slash;

	own[length > 0 ? length : 0] = '\0';
	slash = strrchr(own, '/');
	for (unsigned i = 0; slash && i < sizeof(folders) / sizeof(*folders); i++) {
		slash[1] = '\0';
		if (snprintf(path, sizeof(path), "%s%s%s", own, folders[i], name) <
			    (int)sizeof(path) &&
		    access(path, X_OK) == 0)
			return strdup(path);
	}
	return strdup(name);
}

bool process_has_kernel_tids(void)
{
	char name[64];
	ssize_t n = readlink("/proc/self/ns/pid", name, sizeof(name) - 1);

	if (n < 0)
		return true;
	name[n] = '\0';
	return strcmp(name, "pid:[4026531836]") == 0;
}
