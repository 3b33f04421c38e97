/* --run: a configuration made from the command line, a control socket of its own, and nbctl as a
 * child that measures and shows.  Main thread.  See run.h. */
#include "run.h"

#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "brace.h"
#include "config.h"
#include "config_run.h"
#include "guard.h"
#include "log.h"
#include "process.h"
#include "registry.h"
#include "runtime.h"
#include "server.h"
#include "util.h"
#include "worker_owner.h"

/* ---- The control socket ---- */

static bool is_in_use(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool used;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	used = fd >= 0 &&
	       (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 || errno == EAGAIN);
	if (fd >= 0)
		close(fd);
	return used;
}

/* May a socket be made there? */
static bool is_free(const char *path)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX];

	snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) : 1,
		 slash ? path : ".");
	return access(*folder ? folder : "/", W_OK) == 0 && !is_in_use(path);
}

const char *run_folder(const char *other)
{
	const char *folder = getenv("TMPDIR");

	return folder && *folder ? folder : other;
}

/* Chooses the control socket: that of the environment, or this user's path, where nbctl looks
 * first, unless another daemon uses it; else one in a new directory. */
static int find_control(struct run_mode *run, char *path, size_t bytes)
{
	const char *told = getenv("NBSERVED_SOCKET");
	char *slash;

	if (told && *told && is_free(told)) {
		snprintf(path, bytes, "%s", told);
		return 0;
	}
	runtime_socket(path, bytes);
	slash = strrchr(path, '/');
	*slash = '\0';
	/* A run by root would take the path of the system's service, which could not start. */
	if (!strncmp(path, RUNTIME_SOCKET, strlen(path)))
		*path = '\0';
	else if (mkdir(path, 0755) == 0)
		snprintf(run->directory, sizeof(run->directory), "%s", path);
	else if (errno != EEXIST || access(path, W_OK) < 0)
		*path = '\0';
	if (*path)
		*slash = '/';
	if (*path && !is_in_use(path))
		return 0;
	guard_start(run->argv, NULL);
	snprintf(run->directory, sizeof(run->directory), "%s/nbserved-XXXXXX", run_folder("/tmp"));
	if (!mkdtemp(run->directory)) {
		int error = errno;

		log_error("--run: no directory for the control socket: %s: %s", run->directory,
			  strerror(error));
		run->directory[0] = '\0';
		return -error;
	}
	guard_remove(run->directory);
	if ((size_t)snprintf(path, bytes, "%s/control.sock", run->directory) < bytes)
		return 0;
	log_error("--run: the path of the control socket is too long: %s", run->directory);
	return -ENAMETOOLONG;
}

struct config *run_config(struct run_mode *run)
{
	struct config_errors errors = { 0 };
	const struct group *group = getgrgid(getegid());
	char control[PATH_MAX], server[PATH_MAX + 256], *text;
	struct config *config = NULL;
	struct reason reason = { "" };

	if (find_control(run, control, sizeof(control)) < 0)
		return NULL;
	/* `--run` is interactive: success is printed here, not logged. */
	snprintf(server, sizeof(server), "control = %s\nlog-level = warning\ncontrol-group = %s\n",
		 control, group ? group->gr_name : "root");
	if (config_run_text(run->specs, run->count, server, &text, &reason) < 0) {
		log_error("%s", reason.text);
		run_end(run);
		return NULL;
	}
	config_load_text("--run", text, strlen(text), &config, &errors);
	for (unsigned i = 0; i < errors.count && i < CONFIG_ERRORS_MAX; i++) {
		/* The configuration of --run has lines that no user wrote: the text
		 * begins behind their number. */
		const char *said = strstr(errors.text[i], ": ");

		log_error("--run: %s", said ? said + 2 : errors.text[i]);
	}
	config_errors_free(&errors);
	free(text);
	if (!config)
		run_end(run);
	return config;
}

void run_end(struct run_mode *run)
{
	process_end_descendants();
	if (run->directory[0])
		rmdir(run->directory); /* fails if it is not empty */
	run->directory[0] = '\0';
}

/* ---- nbctl ---- */

/* nbctl in the directory of our own program, as in the build tree, or on $PATH. */
static void find_nbctl(const char *own, char path[static PATH_MAX])
{
	const char *slash = strrchr(own, '/');
	int bytes = slash ? (int)(slash + 1 - own) : 0;

	if (!slash || snprintf(path, PATH_MAX, "%.*snbctl", bytes, own) >= PATH_MAX ||
	    access(path, X_OK) < 0)
		strcpy(path, "nbctl");
}

enum { NBCTL_WORDS_MAX = 4 + RUN_OPTIONS_MAX + 2 * RUN_SPECS_MAX + 1024 };

/* option: -s or -H, with its value.  argv: nbctl's command and arguments, NULL-terminated. */
static int start_nbctl(struct run_mode *run, const char *option, const char *value,
		       char *const *argv)
{
	struct process_how how = { .in = -1, .out = -1, .err = -1, .parent_end = SIGTERM };
	char path[PATH_MAX], own[PATH_MAX], *words[NBCTL_WORDS_MAX] = { NULL };
	ssize_t length = readlink("/proc/self/exe", own, sizeof(own) - 1);
	unsigned count = 0;
	int rc;

	own[length > 0 ? length : 0] = '\0';
	find_nbctl(own, path);
	words[count++] = path;
	words[count++] = (char *)option;
	words[count++] = (char *)value;
	while (*argv && count < ARRAY_SIZE(words) - 1)
		words[count++] = *argv++;
	if (*argv) {
		log_error("--run: the command has too many words");
		return -E2BIG;
	}
	process_adopt_orphans();
	setenv("NBSERVED_RUN", own, true); /* its messages speak of nbserved, which it starts */
	unsetenv("NBSERVED_SOCKET");       /* COMMAND may start another one */
	rc = process_start(words, &how, &run->child);
	if (rc < 0) {
		run->child = 0;
		log_error("cannot start %s: %s", path, strerror(-rc));
	}
	return rc;
}

/* ---- Comparing ---- */

static bool has_text(char *const *words, const char *text)
{
	for (; *words; words++)
		if (strstr(*words, text))
			return true;
	return false;
}

/* Does the command contain the address of a listener?  It does if it has a placeholder
 * (ctl/compare/placeholders.h), or a port that the user chose. */
static bool knows_a_listener(char *const *command, const struct config *config)
{
	char port[8];

	for (unsigned i = 0; config && i < config->listener_count; i++) {
		const struct address *address = &config->listeners[i].addresses[0];

		snprintf(port, sizeof(port), "%u", address->port_first);
		if (address->sa.ss_family == AF_UNIX ||
		    (address->port_first && has_text(command, port)))
			return true;
	}
	return has_text(command, "{port}") || has_text(command, "{uri}") ||
	       has_text(command, "{host}") || has_text(command, "{listener}");
}

/* config NULL: the daemon is on another host. */
static int start_compare(struct run_mode *run, const struct config *config)
{
	char *argv[NBCTL_WORDS_MAX] = { (char *)"compare" };
	unsigned count = 1;

	if (!knows_a_listener(run->command, config))
		log_write(
			LOG_WARNING, NULL,
			"--run: the command has no {port}, {uri}, {host} or {listener}: it must know "
			"by itself where to connect, or it may load another server at its default "
			"port");
	for (unsigned i = 0; i < run->option_count; i++)
		argv[count++] = run->options[i];
	for (unsigned i = 0; i < run->count; i++) {
		argv[count++] = (char *)"--serve";
		argv[count++] = run->specs[i];
	}
	argv[count++] = (char *)"--";
	for (char **word = run->command; *word && count < ARRAY_SIZE(argv) - 1; word++)
		argv[count++] = *word;
	return config ? start_nbctl(run, "-s", config->server.control, argv)
		      : start_nbctl(run, "-H", run->at, argv);
}

/* Waits for nbctl, which starts the daemons, and passes signals on. */
static int await_nbctl(struct run_mode *run, const sigset_t *signals)
{
	int status = 0;
	unsigned count = 0;
	siginfo_t info;

	for (;;) {
		if (sigwaitinfo(signals, &info) < 0)
			continue;
		if (info.si_signo != SIGCHLD) {
			if (++count > RUN_SIGNALS_MAX)
				return 128 + info.si_signo;
			/* A signal of the terminal has reached nbctl as well, except SIGHUP, which
			 * may be only for the terminal's first process. */
			if (info.si_code != SI_KERNEL || info.si_signo == SIGHUP)
				kill(run->child, info.si_signo);
			continue;
		}
		for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
			if (pid == run->child)
				return WIFEXITED(status) ? WEXITSTATUS(status)
							 : 128 + WTERMSIG(status);
	}
}

/* The configuration with the first values of each sweep: nbctl tries each combination itself. */
static struct config *first_config(struct run_mode *run)
{
	struct run_mode first = *run;
	struct brace brace;
	struct config *config;

	for (unsigned i = 0; i < run->count && run->sweeps.count; i++)
		first.specs[i] = sweeps_fill(&run->sweeps, 0, run->specs[i], true);
	config = run_config(&first);
	for (unsigned i = 0; i < run->count && !config; i++)
		if (brace_find(first.specs[i], &brace) && !brace.doubled)
			log_error(
				"--run: %.*s stands for the values of a --sweep of that name, and "
				"there is none",
				(int)brace.bytes, brace.text);
	memcpy(run->directory, first.directory, sizeof(run->directory));
	for (unsigned i = 0; i < run->count && run->sweeps.count; i++)
		free(first.specs[i]);
	return config;
}

int run_compare(struct run_mode *run)
{
	static const int caught[] = { SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGCHLD };
	struct config *config = run->at ? NULL : first_config(run);
	int status = EXIT_FAILURE;
	struct sigaction action;
	sigset_t signals;

	if (!config && !run->at)
		return status;
	sigemptyset(&signals);
	for (unsigned i = 0; i < ARRAY_SIZE(caught); i++)
		sigaddset(&signals, caught[i]);
	/* nohup(1) ignores SIGHUP; sigwaitinfo() would return it in spite of
	 * that if it were blocked. */
	if (sigaction(SIGHUP, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
		sigdelset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	if (start_compare(run, config) == 0)
		status = await_nbctl(run, &signals);
	if (config)
		config_free(config);
	run_end(run);
	return status;
}

/* ---- Serving ---- */

static void print_example(const struct listener *l)
{
	char *example = listener_example(l);

	if (example)
		printf("  %s (%s): %s\n", l->name, l->engine->name, example);
	free(example);
}

static void print_where(const struct run_mode *run)
{
	const struct server *s = run->server;
	const char *told = getenv("NBSERVED_SOCKET"); /* by which nbctl finds it */
	char found[PATH_MAX];

	if (told && *told)
		snprintf(found, sizeof(found), "%s", told);
	else
		runtime_find_socket(found, sizeof(found));
	puts("Serving.  Try, in another terminal:");
	for (unsigned i = 0; i < s->listeners.count; i++)
		print_example(s->listeners.list[i]);
	for (unsigned i = 0; i < s->listeners.count; i++)
		if (s->listeners.list[i]->state == LISTENER_UNAVAILABLE)
			printf("  %s is unavailable: %s\n", s->listeners.list[i]->name,
			       s->listeners.list[i]->reason.text);
	if (strcmp(found, s->config->server.control) != 0)
		printf("  nbctl -s %s top\n", s->config->server.control);
	else
		puts("  nbctl top");
	puts("Ctrl-C ends it, and shows what was served.");
	fflush(stdout);
}

/* `engine=all` continues without the engines that this host lacks.  A listener whose engine the
 * host has failed for another reason, such as a port that another program uses. */
static int check_serving(const struct server *s)
{
	int rc = 0;

	for (unsigned i = 0; i < s->listeners.count; i++) {
		const struct listener *l = s->listeners.list[i];
		struct reason lacks = { "" };
		uint64_t features;

		if (l->state != LISTENER_UNAVAILABLE || !l->config->engine ||
		    worker_probe(engine_of(l->config->engine, &l->config->options),
				 &l->config->options, &features, &lacks) < 0)
			continue;
		log_error("--run: %s: %s", l->name, l->reason.text);
		rc = -EIO;
	}
	return rc;
}

static int on_nbctl_end(sd_event_source *source, const siginfo_t *info, void *context)
{
	struct run_mode *run = context;

	(void)info;
	sd_event_source_disable_unref(source);
	run->child = 0;
	server_drain(run->server);
	return 0;
}

/* Shows the counts, and ends the server then. */
static int start_stats(struct run_mode *run)
{
	char *stats[] = { (char *)"stats", (char *)"--active", NULL };
	sd_event_source *source;
	int rc = start_nbctl(run, "-s", run->server->config->server.control, stats);

	return rc < 0 ? rc
		      : sd_event_add_child(run->server->event, &source, run->child, WEXITED,
					   on_nbctl_end, run);
}

int run_start(struct run_mode *run, struct server *s)
{
	sigset_t child;
	int rc = check_serving(s);

	if (rc < 0)
		return rc;
	run->server = s;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	print_where(run);
	return 0;
}

bool run_interrupt(struct run_mode *run, const struct signalfd_siginfo *info, unsigned count)
{
	if (run->child && count <= RUN_SIGNALS_MAX) {
		/* Lets nbctl end.  A signal of the terminal has reached nbctl as well, except
		 * SIGHUP, which may be only for the terminal's first process. */
		if (info->ssi_code != SI_KERNEL || info->ssi_signo == SIGHUP)
			kill(run->child, (int)info->ssi_signo);
		return true;
	}
	/* Only Ctrl-C comes from a user who looks at the output; a
	 * service manager sends SIGTERM. */
	return count == 1 && info->ssi_signo == SIGINT && start_stats(run) == 0;
}
