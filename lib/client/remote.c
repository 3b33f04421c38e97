/* ssh(1) as a child process, with a socket as its stdin and stdout, and what it prints on stderr
 * kept for an error message.  See remote.h. */
#include "remote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ctl.h"
#include "printable.h"
#include "process.h"
#include "util.h"

enum {
	REMOTE_COMMAND_MAX = 4096,
	REMOTE_LINE_MAX = 256, /* bytes of a line that ssh printed */
	REMOTE_END_MS = 1000,  /* the time that ssh has to end after its connection */
	SSH_FAILED = 255,      /* ssh(1), EXIT STATUS */
	SHELL_NOT_FOUND = 127,
};

/* Makes the command that the other host's shell reads.  The socket's path is quoted; the program's
 * path is not, since it may be several words.  False: too long. */
static bool remote_command(const struct client_target *target, char *text, size_t bytes)
{
	int n = snprintf(text, bytes, "exec %s bridge", target->program);
	size_t used = (size_t)n, room = sizeof("'\\'''");

	if (used + sizeof(" -s ''") + room > bytes)
		return false;
	if (!target->socket)
		return true;
	used += (size_t)sprintf(text + used, " -s '");
	for (const char *s = target->socket; *s; s++) {
		if (used + room > bytes)
			return false;
		if (*s == '\'')
			used += (size_t)sprintf(text + used, "'\\''");
		else
			text[used++] = *s;
	}
	strcpy(text + used, "'");
	return true;
}

int remote_open(const struct client_target *target, struct remote *r, int *ret_fd)
{
	char command[REMOTE_COMMAND_MAX];
	const char *own = getenv("NBSERVED_SSH");
	const char *program = own ? own : getenv("NBCTL_SSH"); /* its name until 0.3 */
	const char *argv[] = {
		program && *program ? program : "ssh",
		"-xT",
		"-oServerAliveInterval=5",
		"-oServerAliveCountMax=3",
		"-oConnectTimeout=10",
		target->batch ? "-oBatchMode=yes" : "-oBatchMode=no",
		"--",
		target->host,
		command,
		NULL,
	};
	struct process_how how = { .parent_end = SIGTERM, .ignores_interrupts = true };
	int fds[2], rc;

	if (!remote_command(target, command, sizeof(command)))
		return -ENAMETOOLONG;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return -errno;
	r->errors = memfd_create("ssh", MFD_CLOEXEC);
	how.in = how.out = fds[1];
	how.err = r->errors;
	rc = r->errors < 0 ? -errno : process_start((char *const *)argv, &how, &r->pid);
	close(fds[1]);
	if (rc == 0 && fcntl(fds[0], F_SETFL, O_NONBLOCK) == 0) {
		*ret_fd = fds[0];
		return 0;
	}
	close(fds[0]);
	if (r->errors >= 0)
		close(r->errors);
	return rc;
}

/* Waits for ssh to end, REMOTE_END_MS at most.  Its exit status; -1: it still runs (its pid is not
 * 0), or a signal ended it. */
static int remote_status(struct remote *r)
{
	uint64_t end_ns = clock_ns() + REMOTE_END_MS * (uint64_t)NS_PER_MS;
	int status = 0;

	while (r->pid > 0 && clock_ns() < end_ns) {
		if (waitpid(r->pid, &status, WNOHANG) == r->pid) {
			r->pid = 0;
			return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
		}
		poll(NULL, 0, 5);
	}
	return -1;
}

void remote_close(struct remote *r)
{
	if (r->pid > 0)
		kill(r->pid, SIGTERM);
	remote_status(r);
	if (r->pid > 0) {
		kill(r->pid, SIGKILL);
		waitpid(r->pid, NULL, 0);
	}
	close(r->errors);
}

/* The last line of text that is not empty, with its control characters replaced. */
static void last_line(const char *text, size_t bytes, char line[static REMOTE_LINE_MAX])
{
	size_t end = bytes, begin;

	while (end > 0 && (text[end - 1] == '\n' || text[end - 1] == '\r'))
		end--;
	for (begin = end; begin > 0 && text[begin - 1] != '\n';)
		begin--;
	snprintf(line, REMOTE_LINE_MAX, "%.*s", (int)MIN(end - begin, (size_t)REMOTE_LINE_MAX),
		 text + begin);
	printable_clean(line);
}

static void remote_messages(const struct remote *r, char line[static REMOTE_LINE_MAX])
{
	char text[4096];
	off_t end = lseek(r->errors, 0, SEEK_END);
	ssize_t n = pread(r->errors, text, sizeof(text), MAX(end - (off_t)sizeof(text), (off_t)0));

	last_line(text, n > 0 ? (size_t)n : 0, line);
}

void remote_explain(struct remote *r, const struct client_target *target, int error,
		    const char *unread, size_t unread_bytes, char *text, size_t bytes)
{
	const char *host = target->host, *newline;
	char line[REMOTE_LINE_MAX];
	int status;

	if (error == EPROTO) {
		newline = memchr(unread, '\n', unread_bytes);
		last_line(unread, newline ? (size_t)(newline - unread) : unread_bytes, line);
		snprintf(text, bytes, "%s printed '%s': `ssh %s true` must print nothing", host,
			 line, host);
		return;
	}
	if (error == ETIMEDOUT) {
		snprintf(text, bytes, "%s does not answer; does `ssh %s true` work?", host, host);
		return;
	}
	status = remote_status(r);
	remote_messages(r, line);
	if (status == SHELL_NOT_FOUND)
		snprintf(text, bytes,
			 "%s is not in %s's PATH: install it there, or name it with --%s PATH",
			 target->program, host, ctl_program);
	else if (status == SSH_FAILED)
		snprintf(text, bytes, "%s: %s; does `ssh %s true` work?", host,
			 *line ? line : "the connection was lost, or its end there was killed",
			 host);
	else
		snprintf(text, bytes, "%s: %s", host, *line ? line : "the connection was closed");
}
