/* See serve.h. */
#include "serve.h"

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
#include "sweep.h"
#include "util.h"

enum {
	START_MS = 60 * 1000, /* the daemon itself gives up after 10 s for each worker */
	STOP_MS = 10 * 1000,  /* of a drain; then it is killed */
};

/* Cuts text at newlines into `list`, which has room for `max`.  Returns how many there are. */
static unsigned cut_lines(char *text, char **list, unsigned max)
{
	unsigned count = 0;

	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		if (count < max)
			list[count] = line;
		count++;
	}
	return count;
}

/* The nbserved that started us, or that in our own directory, as in the build tree, or on $PATH. */
static char *own_nbserved(void)
{
	char path[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *slash;

	if (ctl_nbserved)
		return strdup(ctl_nbserved);
	path[MAX(length, (ssize_t)0)] = '\0';
	slash = strrchr(path, '/');
	if (slash && (size_t)(slash + 1 - path) + sizeof("nbserved") <= sizeof(path)) {
		strcpy(slash + 1, "nbserved");
		if (access(path, X_OK) == 0)
			return strdup(path);
	}
	return strdup("nbserved");
}

static int add_build(struct serve *s, const char *text)
{
	const char *equals = strchr(text, '=');
	struct serve_build *b = &s->builds[s->build_count];

	if (!equals || equals == text || !equals[1])
		return ctl_usage(s->ctl, "--build: expected NAME=PATH of an nbserved, got '%s'",
				 text);
	if (strchr(equals, '/') && access(equals + 1, X_OK) < 0)
		return ctl_usage(s->ctl, "--build: %s: %s", equals + 1, strerror(errno));
	b->name = strndup(text, (size_t)(equals - text));
	b->path = strdup(equals + 1);
	for (unsigned i = 0; i < s->build_count; i++)
		if (!strcmp(s->builds[i].name, b->name))
			return ctl_usage(s->ctl, "--build: there are two of the name '%s'",
					 b->name);
	s->build_count++;
	return CTL_DONE;
}

int serve_init(struct serve *s, struct ctl *ctl, const char *specs, const char *builds)
{
	char *text = strdup(specs), *list[SERVE_BUILDS_MAX];
	unsigned count;
	int rc = CTL_DONE;

	*s = (struct serve){ .ctl = ctl };
	count = cut_lines(text, s->specs, SERVE_SPECS_MAX);
	for (unsigned i = 0; i < MIN(count, (unsigned)SERVE_SPECS_MAX); i++)
		s->specs[i] = strdup(s->specs[i]);
	free(text);
	if (count > SERVE_SPECS_MAX)
		return ctl_usage(ctl, "at most %d listeners can be served", SERVE_SPECS_MAX);
	if (!builds) {
		s->builds[s->build_count++].path = own_nbserved();
		return CTL_DONE;
	}
	text = strdup(builds);
	count = cut_lines(text, list, SERVE_BUILDS_MAX);
	if (count < 2 || count > SERVE_BUILDS_MAX)
		rc = ctl_usage(ctl, "--build: expected two to %d, the first to compare with",
			       SERVE_BUILDS_MAX);
	for (unsigned i = 0; i < count && rc == CTL_DONE; i++)
		rc = add_build(s, list[i]);
	free(text);
	return rc;
}

void serve_fini(struct serve *s)
{
	for (unsigned i = 0; i < SERVE_SPECS_MAX; i++)
		free(s->specs[i]);
	for (unsigned i = 0; i < SERVE_BUILDS_MAX; i++) {
		free(s->builds[i].name);
		free(s->builds[i].path);
	}
}

/* ---- A daemon ---- */

/* Waits for the line that it prints when it serves.  False: its output has ended, or Ctrl-C. */
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

/* False: it has not ended within the time. */
static bool wait_end(pid_t pid, unsigned ms, int *ret_status)
{
	uint64_t end_ns = clock_ns() + ms * (uint64_t)NS_PER_MS;

	do {
		if (waitpid(pid, ret_status, WNOHANG) != 0)
			return true; /* also if child_run() has reaped it */
		poll(NULL, 0, 1);
	} while (clock_ns() < end_ns);
	return false;
}

/* The daemon ends by itself, with a message, or did not serve in time. */
static int failed_start(struct serve *s, unsigned build)
{
	int status = 0;

	if (!wait_end(s->pid, STOP_MS, &status)) {
		serve_stop(s);
		if (!child_interrupted())
			ctl_warn("%s does not serve", s->builds[build].path);
		return CTL_UNREACHABLE;
	}
	s->pid = 0;
	return WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : CTL_UNREACHABLE;
}

/* To be freed. */
static char *fill_spec(const struct serve *s, const char *spec)
{
	char *text = s->sweeps && s->sweeps->count
			     ? sweeps_fill(s->sweeps, s->combination, spec, true)
			     : strdup(spec);

	if (!text)
		abort();
	return text;
}

int serve_start(struct serve *s, unsigned build)
{
	char *argv[2 * SERVE_SPECS_MAX + 2] = { s->builds[build].path };
	struct process_how how = { .in = -1, .err = -1, .parent_end = SIGTERM, .apart = true };
	unsigned count = 1;
	int out[2], rc;
	bool serves;

	if (pipe2(out, O_CLOEXEC) < 0)
		return CTL_CANNOT_RUN;
	for (char **spec = s->specs; *spec; spec++) {
		argv[count++] = (char *)"--run";
		argv[count++] = fill_spec(s, *spec);
	}
	how.out = out[1];
	/* For the daemon alone: COMMAND may start another one. */
	setenv("NBSERVED_SOCKET", s->ctl->target.socket, true);
	rc = process_start(argv, &how, &s->pid);
	unsetenv("NBSERVED_SOCKET");
	close(out[1]);
	for (unsigned i = 2; i < count; i += 2)
		free(argv[i]);
	if (rc < 0) {
		close(out[0]);
		s->pid = 0;
		ctl_warn("cannot run %s: %s", argv[0], strerror(-rc));
		return rc == -ENOENT ? CTL_NOT_FOUND : CTL_CANNOT_RUN;
	}
	process_spare(s->pid);
	serves = await_serving(out[0]);
	close(out[0]);
	return serves ? CTL_DONE : failed_start(s, build);
}

static bool is_swept(const struct serve *s)
{
	bool swept = false;

	for (unsigned i = 0; s->sweeps && i < s->sweeps->count; i++)
		for (char *const *spec = s->specs; *spec; spec++)
			swept |= sweeps_names(s->sweeps, i, *spec);
	return swept;
}

int serve_try(struct serve *s)
{
	unsigned count = is_swept(s) ? sweeps_combinations(s->sweeps) : 0;
	int rc = CTL_DONE;

	for (s->combination = 0; s->combination < count && rc == CTL_DONE; s->combination++)
		for (unsigned i = 0; i < s->build_count && rc == CTL_DONE; i++) {
			rc = serve_start(s, i);
			serve_stop(s);
		}
	return rc;
}

void serve_stop(struct serve *s)
{
	int status = 0;

	if (!s->pid)
		return;
	client_close(s->ctl->kept); /* it is this daemon's */
	s->ctl->kept = NULL;
	kill(s->pid, SIGTERM);
	if (!wait_end(s->pid, STOP_MS, &status)) {
		kill(s->pid, SIGKILL);
		waitpid(s->pid, &status, 0);
	}
	s->pid = 0;
	process_spare(0);
}
