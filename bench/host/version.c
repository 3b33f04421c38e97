/* See version.h. */
#include "version.h"

#include <err.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "generator.h"
#include "printable.h"
#include "process.h"
#include "util.h"

/* A row without it is of another setup: longer than a busy host takes, shorter than a call. */
enum { VERSION_MS = 10 * 1000 };

/* Until the first line is whole, or the end. */
static void read_first_line(int fd, const char *program, char *text, size_t bytes)
{
	uint64_t end_ns = clock_ns() + VERSION_MS * (uint64_t)NS_PER_MS;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t used = 0;

	while (used < bytes - 1 && !strchr(text, '\n') && clock_ns() < end_ns) {
		ssize_t n = poll(&p, 1, 10) > 0 ? read(fd, text + used, bytes - 1 - used) : -1;

		if (n == 0)
			break;
		used += n > 0 ? (size_t)n : 0;
		text[used] = '\0';
	}
	if (clock_ns() >= end_ns) {
		*text = '\0';
		warnx("%s told no version in %d s: its rows are of a setup without one", program,
		      VERSION_MS / 1000);
	}
	text[strcspn(text, "\n")] = '\0';
	printable_clean(text);
}

char *version_of(char *const *argv)
{
	const char *program, *option = generator_version(argv, &program);
	const char *const words[] = { program, option, NULL };
	struct process_how how = { .parent_end = SIGKILL };
	char text[128] = "";
	int out[2], rc;
	pid_t pid;

	if (!option)
		return NULL;
	how.in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (how.in < 0)
		return NULL;
	if (pipe2(out, O_CLOEXEC) < 0) {
		close(how.in);
		return NULL;
	}
	how.out = how.err = out[1];
	rc = process_start((char *const *)words, &how, &pid);
	close(how.in);
	close(out[1]);
	if (rc == 0) {
		read_first_line(out[0], program, text, sizeof(text));
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	close(out[0]);
	return rc == 0 && *text ? strdup(text) : NULL;
}
