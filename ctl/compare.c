/* `nbctl compare`: what each listener's operations cost over an interval, or while a command runs.
 */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compare_table.h"
#include "ctl.h"
#include "field.h"
#include "measure.h"
#include "reasons.h"
#include "suggest.h"
#include "util.h"

enum { COMPARE_INTERVAL_MS = 2000 };

enum { VALUE_INTERVAL, VALUE_LABEL, VALUE_SAVE, VALUE_LOAD, VALUE_QUIET };

/* ---- The command to be measured ---- */

static void copy_out(int fd)
{
	char data[4096];
	ssize_t n;

	lseek(fd, 0, SEEK_SET);
	while ((n = read(fd, data, sizeof(data))) > 0)
		fwrite(data, 1, (size_t)n, stderr);
}

/* Starts argv with the signals as they were for us; output to fd unless that is < 0. */
static int spawn(char **argv, int fd, pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t signals;
	int error;

	posix_spawn_file_actions_init(&actions);
	if (fd >= 0) {
		posix_spawn_file_actions_adddup2(&actions, fd, STDOUT_FILENO);
		posix_spawn_file_actions_adddup2(&actions, fd, STDERR_FILENO);
	}
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGQUIT);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigdefault(&attributes, &signals);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
	error = posix_spawnp(ret_pid, argv[0], &actions, &attributes, argv, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return -error;
}

/* Runs argv to its end.  Its wait status, or -errno when it could not be started.  Ctrl-C ends it
 * and not nbctl. */
static int run_command(char **argv, bool quiet)
{
	void (*interrupt)(int) = signal(SIGINT, SIG_IGN), (*quit)(int) = signal(SIGQUIT, SIG_IGN);
	int fd = quiet ? memfd_create("output", MFD_CLOEXEC) : -1, status;
	pid_t pid;
	int rc = spawn(argv, fd, &pid);

	if (rc == 0) {
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		rc = status;
	}
	signal(SIGINT, interrupt);
	signal(SIGQUIT, quit);
	if (fd >= 0) {
		if (rc > 0)
			copy_out(fd);
		close(fd);
	}
	return rc;
}

/* Says what became of the command, of which run_command() has told; the exit code. */
static int command_result(const char *name, int status)
{
	if (status < 0) {
		ctl_warn("cannot run %s: %s", name, strerror(-status));
		return status == -ENOENT ? CTL_NOT_FOUND : CTL_CANNOT_RUN;
	}
	if (WIFSIGNALED(status)) {
		ctl_warn("%s was killed by signal %d (%s)", name, WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
		return CTL_SIGNALLED + WTERMSIG(status);
	}
	if (WEXITSTATUS(status))
		ctl_warn("%s failed with exit status %d", name, WEXITSTATUS(status));
	return WEXITSTATUS(status);
}

/* ---- Measuring ---- */

static void wait_ms(unsigned ms)
{
	struct timespec left = { ms / 1000, (long)(ms % 1000) * NS_PER_MS };

	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
}

/* The parameters of GetStats.  Names go to the daemon, which knows them all. */
static json_t *parameters(struct ctl *ctl)
{
	json_t *names = ctl_words(ctl);

	return names ? json_pack("{s:o}", "listeners", names) : NULL;
}

static void drop_idle(struct measures *m)
{
	json_t *active = json_array();

	for (unsigned i = 0; i < m->count; i++)
		if (m->rows[i]->listener_count)
			json_array_append_new(active, json_string(m->rows[i]->listener));
	measures_select(m, active);
	json_decref(active);
}

static int delta(struct ctl *ctl, const json_t *before, const json_t *after, struct measures *m)
{
	const char *label = ctl->values[VALUE_LABEL];
	uint64_t interval_ns;

	if (measures_interval(before, after, &interval_ns) < 0) {
		ctl_warn("the daemon was restarted during the interval: nothing to compare");
		return CTL_REFUSED;
	}
	measures_delta(m, before, after, interval_ns, label ? label : "");
	return CTL_DONE;
}

/* *ret_status: of the command, or why it was not run, as an exit code; CTL_DONE without one. */
static int measure(struct ctl *ctl, unsigned interval_ms, struct measures *m, int *ret_status)
{
	json_t *before, *after;
	int rc, status = 0;

	rc = ctl_call(ctl, "GetStats", parameters(ctl), &before);
	if (rc != CTL_DONE)
		return rc;
	if (ctl->rest) {
		fflush(ctl->out.file);
		status = run_command(ctl->rest, ctl->values[VALUE_QUIET]);
		*ret_status = command_result(ctl->rest[0], status);
	} else {
		wait_ms(interval_ms);
	}
	if (status >= 0) {
		rc = ctl_call(ctl, "GetStats", parameters(ctl), &after);
		if (rc == CTL_DONE) {
			rc = delta(ctl, before, after, m);
			json_decref(after);
		}
	}
	json_decref(before);
	return rc;
}

/* ---- Files of rows ---- */

static int file_error(const char *path, int error)
{
	ctl_warn("%s: %s", path, strerror(error));
	return CTL_USAGE;
}

/* Appends the rows to the file, which path names. */
static int save(FILE *to, const char *path, const struct measures *m)
{
	for (unsigned i = 0; i < m->count; i++) {
		json_t *row;

		if (m->rows[i]->count == 0)
			continue;
		row = measure_to_json(m->rows[i]);
		json_dumpf(row, to, JSON_COMPACT);
		putc('\n', to);
		json_decref(row);
	}
	if (fflush(to) < 0)
		return file_error(path, errno);
	return ferror(to) ? file_error(path, EIO) : CTL_DONE;
}

static int load(const char *path, struct measures *m)
{
	FILE *from = strcmp(path, "-") ? fopen(path, "re") : stdin;
	unsigned line;
	int rc;

	if (!from)
		return file_error(path, errno);
	rc = measures_load(m, from, &line);
	if (from != stdin)
		fclose(from);
	if (rc == -EINVAL) {
		ctl_warn("%s:%u: expected a row that `nbctl compare --save` wrote", path, line);
		return CTL_USAGE;
	}
	if (rc < 0)
		return file_error(path, -rc);
	measures_merge(m);
	return CTL_DONE;
}

/* ---- The command ---- */

static void show(struct ctl *ctl, const struct measures *m, const json_t *unavailable)
{
	json_t *document;

	if (!ctl->out.json) {
		compare_render(&ctl->out, m);
		reasons_render(&ctl->out, unavailable);
		return;
	}
	document = compare_to_json(m, unavailable);
	output_json(&ctl->out, document, false);
	json_decref(document);
}

static int no_such_listener(const struct measures *m, const char *name)
{
	struct suggestion near = { .text = name };

	for (unsigned i = 0; i < m->count; i++)
		suggest_try(&near, m->rows[i]->listener);
	ctl_warn("there is no listener '%s'%s", name, suggest_hint(&near));
	return CTL_REFUSED;
}

/* Keeps the rows of the named listeners; CTL_REFUSED when one is not there. */
static int select_named(struct ctl *ctl, struct measures *m)
{
	json_t *names = ctl_words(ctl);
	int rc = CTL_DONE;

	for (unsigned i = 0; i < ctl->word_count && rc == CTL_DONE; i++)
		if (!measures_has(m, ctl->words[i]))
			rc = no_such_listener(m, ctl->words[i]);
	if (names)
		measures_select(m, names);
	else if (ctl->rest)
		drop_idle(m);
	json_decref(names);
	return rc;
}

static int check(struct ctl *ctl, unsigned *ret_interval_ms)
{
	const char *interval = ctl->values[VALUE_INTERVAL];

	*ret_interval_ms = COMPARE_INTERVAL_MS;
	if (ctl->rest && !ctl->rest[0])
		return ctl_usage(ctl, "there is no command after `--`");
	if (interval && ctl->rest)
		return ctl_usage(ctl, "the interval is the command's run time: no --interval");
	if (interval && ctl_interval(ctl, "interval", interval, 1, ret_interval_ms))
		return CTL_USAGE;
	if (ctl->values[VALUE_QUIET] && !ctl->rest)
		return ctl_usage(ctl, "--quiet is about the command after `--`");
	if (ctl->values[VALUE_LOAD] && (ctl->rest || interval || ctl->values[VALUE_SAVE]))
		return ctl_usage(ctl, "--load shows saved rows and measures nothing");
	return CTL_DONE;
}

/* `good`: the rows are to be saved, too. */
static int show_and_save(struct ctl *ctl, struct measures *m, FILE *to, bool good)
{
	const char *path = ctl->values[VALUE_SAVE];
	int rc = select_named(ctl, m);
	json_t *unavailable = measures_take_unavailable(m);

	if (m->count || rc == CTL_DONE)
		show(ctl, m, unavailable);
	if (to && rc == CTL_DONE && good)
		rc = save(to, path, m);
	else if (to)
		ctl_warn("%s: nothing saved", path);
	json_decref(unavailable);
	return rc;
}

/* With the file for --save open, if it was given: that must not fail when the command has run. */
static int compare(struct ctl *ctl, unsigned interval_ms, FILE *to)
{
	const char *from = ctl->values[VALUE_LOAD];
	struct measures m = {};
	int status = 0, rc;

	rc = from ? load(from, &m) : measure(ctl, interval_ms, &m, &status);
	if (rc == CTL_DONE && (m.count || status == 0))
		rc = show_and_save(ctl, &m, to, status == 0);
	measures_free(&m);
	return status ? status : rc;
}

static int run(struct ctl *ctl)
{
	const char *path = ctl->values[VALUE_SAVE];
	unsigned interval_ms;
	FILE *to = NULL;
	int rc = check(ctl, &interval_ms);

	if (rc != CTL_DONE)
		return rc;
	if (path && !(to = fopen(path, "ae")))
		return file_error(path, errno);
	rc = compare(ctl, interval_ms, to);
	if (to)
		fclose(to);
	return rc;
}

const struct command command_compare = {
	.name = "compare",
	.arguments = "[LISTENER...] [-- COMMAND ARG...]",
	.summary = "what an operation costs on each listener, side by side",
	.details =
		"Takes the counters twice and shows the difference: rates, latency, CPU time and\n"
		"system calls per operation.  With COMMAND, usually a load generator, the interval is\n"
		"its run time, from its start to its end, and only listeners that did something are\n"
		"shown.  The first listener of each service is the baseline: name them in the order\n"
		"you like.\n"
		"\n"
		"Operations, bytes, CPU time and system calls are counted; latency is sampled, and\n"
		"the table says how many samples there were.  It runs from the moment a worker has a\n"
		"request's bytes to the moment the kernel has taken the reply; the generator sees the\n"
		"round trip.  CPU time is that of the listener's own threads and of the kernel's\n"
		"threads that work for them; interrupts are charged by Linux to whoever they\n"
		"interrupt.  Saved rows of the same label and listener are added up.\n"
		"\n"
		"The exit status is COMMAND's: 128 and the signal's number when one killed it, 127 when\n"
		"there is no such command, 126 when it cannot be run.\n",
	.example = "nbctl compare echo-epoll echo-uring --interval 5\n"
		   "nbctl compare -- redis-benchmark -p 7008 -t ping_mbulk -n 200000 -q\n"
		   "nbctl compare --label '50 conn' --save rows.jsonl echo-uring -- LOAD ARG...\n"
		   "nbctl compare --load rows.jsonl",
	.options = {
		[VALUE_INTERVAL] = { "interval", OPTION_VALUE, "SECONDS", "how long (default: 2)" },
		[VALUE_LABEL] = { "label", OPTION_VALUE, "TEXT", "names the load in saved rows" },
		[VALUE_SAVE] = { "save", OPTION_VALUE, "FILE", "append each row to FILE as JSON" },
		[VALUE_LOAD] = { "load", OPTION_VALUE, "FILE", "show saved rows; asks no daemon" },
		[VALUE_QUIET] = { "quiet", OPTION_FLAG, NULL, "hide COMMAND's output unless it fails" },
	},
	.words_max = 256,
	.runs_command = true,
	.run = run,
};
