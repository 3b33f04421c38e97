/* `nbbench bridge`: the far end of -H and of --on.  Besides relaying calls to the daemon it answers
 * org.nbserved.Host: it describes and reads its host, runs a command, serves a daemon for one
 * measurement.  Nothing that it has started may outlive it: a command is ended by run_command(),
 * and a daemon by end_daemon(). */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include "bridge.h"
#include "child.h"
#include "ctl.h"
#include "field.h"
#include "guard.h"
#include "host.h"
#include "leftovers.h"
#include "must.h"
#include "parse.h"
#include "process.h"
#include "served.h"
#include "text.h"
#include "util.h"
#include "version.h"

/* The texts of the parameter argv, NULL-terminated.  They belong to it, the array to the caller. */
static char **words_of(const json_t *parameters)
{
	json_t *argv = field_get(parameters, "argv"), *word;
	char **words = must(calloc(json_array_size(argv) + 1, sizeof(*words)));
	size_t i;

	json_array_foreach(argv, i, word)
		words[i] = (char *)(json_is_string(word) ? json_string_value(word) : "");
	return words;
}

/* ---- Run ---- */

/* org.nbserved.Host.Run: a load generator on this host for `nbbench compare --on`.
 *
 * Run(argv, timeout_ms) with `more` is answered when the command has started, then with its CPU
 * time every 50 ms and with its output as it comes, and at last with its status and its times.
 *
 * While the command runs, nbbench may send three calls that have no reply: Alive, once a second;
 * Idle, which says that the listener has had no load so far; and Stop, which ends the command.  The
 * command is also ended when input ends or when no call has come for ten seconds, so that nothing
 * is left running on this host if nbbench is killed or the network is lost.
 *
 * The command is ended by raise(): child.c has handlers for the signals of a user who types Ctrl-C,
 * and they do all that is needed, also the kill of a command that ignores the first signal. */

enum {
	RUN_REPORT_MS = 50,
	RUN_SILENCE_MS = 10000,
};

struct run {
	struct varlink_reader *reader;
	uint64_t active_ns;   /* when the last call came */
	uint64_t reported_ns; /* when the last reply with CPU time was sent; 0: none yet */
	bool idle;            /* Idle has come since the last look */
	bool silent;          /* nbbench is gone: no more replies, the command is being ended */
};

static void peer_is_gone(struct run *r)
{
	if (!r->silent)
		raise(SIGTERM);
	r->silent = true;
}

static void stop(const json_t *parameters)
{
	static const int allowed[] = { SIGINT, SIGQUIT, SIGHUP };
	int number = SIGTERM;

	for (unsigned i = 0; i < ARRAY_SIZE(allowed); i++)
		if (field_uint(parameters, "signal") == (uint64_t)allowed[i])
			number = allowed[i];
	raise(number);
}

static void take_call(struct run *r, const char *text, size_t bytes)
{
	struct varlink_request call;

	if (varlink_request_parse(text, bytes, &call) < 0) {
		peer_is_gone(r);
		return;
	}
	r->active_ns = clock_ns();
	if (!strcmp(call.method, "org.nbserved.Host.Stop"))
		stop(call.parameters);
	else if (!strcmp(call.method, "org.nbserved.Host.Idle"))
		r->idle = true;
	else if (strcmp(call.method, "org.nbserved.Host.Alive") != 0)
		peer_is_gone(r);
	varlink_request_free(&call);
}

/* Handles the calls that have come on stdin, without waiting.  The bridge may have read some of
 * them together with Run: these are in the reader already. */
static void listen_to(struct run *r)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	const char *text;
	char data[4096];
	size_t bytes;
	ssize_t n;
	int rc;

	while ((rc = varlink_reader_next(r->reader, &text, &bytes)) == 1)
		take_call(r, text, bytes);
	if (rc < 0)
		peer_is_gone(r);
	if (r->silent || poll(&input, 1, 0) <= 0)
		return;
	n = read(STDIN_FILENO, data, sizeof(data));
	if (n == 0 || (n < 0 && errno != EINTR) ||
	    (n > 0 && varlink_reader_append(r->reader, data, (size_t)n) < 0))
		peer_is_gone(r);
}

static json_t *use_to_json(const struct use *use)
{
	return json_pack("{s:I, s:I, s:f}", "cpu_ns", (json_int_t)use->cpu_ns, "busiest_ns",
			 (json_int_t)use->busiest_ns, "peak", use->peak);
}

static int run_fd(const void *context)
{
	const struct run *r = context;

	return r->silent ? -1 : STDIN_FILENO;
}

static int run_wait_ms(const void *context)
{
	const struct run *r = context;

	return r->reported_ns ? RUN_REPORT_MS : 0;
}

static enum watch_answer run_look(void *context, const struct use *use)
{
	struct run *r = context;
	uint64_t now_ns = clock_ns();
	enum watch_answer answer;

	if (!r->silent)
		listen_to(r);
	if (now_ns > r->active_ns + RUN_SILENCE_MS * (uint64_t)NS_PER_MS)
		peer_is_gone(r);
	answer = r->idle ? WATCH_IDLE : WATCH_GO;
	r->idle = false;
	if (r->silent || now_ns < r->reported_ns + RUN_REPORT_MS * NS_PER_MS)
		return answer;
	r->reported_ns = now_ns;
	if (!bridge_put(json_pack("{s:{s:o}, s:b}", "parameters", "use", use_to_json(use),
				  "continues", true)))
		peer_is_gone(r);
	return answer;
}

/* Output as a JSON text.  JSON takes only UTF-8, and Varlink's messages end at a NUL: if the output
 * is anything else, also a part of a character, each byte outside ASCII becomes a '?'. */
static json_t *text_of(const char *data, size_t bytes)
{
	json_t *made = memchr(data, 0, bytes) ? NULL : json_stringn(data, bytes);
	char *text;

	if (made)
		return made;
	text = must(malloc(bytes));
	memcpy(text, data, bytes);
	for (size_t i = 0; i < bytes; i++)
		if ((unsigned char)text[i] >= 0x80 || !text[i])
			text[i] = '?';
	made = json_stringn(text, bytes);
	free(text);
	return made;
}

static void run_output(void *context, bool errors, const char *data, size_t bytes)
{
	struct run *r = context;

	if (!r->silent &&
	    !bridge_put(json_pack("{s:{s:o}, s:b}", "parameters", errors ? "errors" : "output",
				  text_of(data, bytes), "continues", true)))
		peer_is_gone(r);
}

static json_t *child_to_json(const struct child *child)
{
	char cpus[256];

	return json_pack("{s:i, s:b, s:I, s:o, s:s}", "status", child->status, "timed_out",
			 child->timed_out, "wall_ns", (json_int_t)child->wall_ns, "use",
			 use_to_json(&child->use), "cpus",
			 format_cpus(&child->cpus, cpus, sizeof(cpus)));
}

/* Runs the command of a call of Run to its end, and reads `reader` meanwhile. */
static bool run_command(struct varlink_reader *reader, const struct varlink_request *call)
{
	uint64_t timeout_ms = field_uint(call->parameters, "timeout_ms");
	char **words = words_of(call->parameters);
	struct run run = { .reader = reader, .active_ns = clock_ns() };
	struct watcher watcher = { &run, run_fd, run_wait_ms, run_look, run_output };
	struct child child;
	json_t *last;

	if (!words[0] || !call->more || timeout_ms > UINT32_MAX) {
		const char *wrong = !words[0] ? "argv" : !call->more ? "more" : "timeout_ms";

		free(words);
		return bridge_put_error("org.varlink.service.InvalidParameter",
					json_pack("{s:s}", "parameter", wrong));
	}
	signal(SIGPIPE,
	       SIG_IGN); /* a lost nbbench must not kill the bridge before the command ends */
	child_catch_signals();
	child_run(words, CHILD_PASS, false, (unsigned)timeout_ms, &watcher, &child);
	child_release_signals();
	free(words);
	last = child_to_json(&child);
	child_free(&child);
	if (!run.silent)
		return bridge_put(json_pack("{s:o}", "parameters", last));
	json_decref(last);
	return false;
}

/* ---- Serve ---- */

/* org.nbserved.Host.Serve and Unserve: a daemon on this host for one measurement of `nbbench -H
 * HOST run SPEC`.  It has a control socket of its own, to which the bridge relays calls while it
 * serves.  The bridge owns the process: it ends with Unserve, or with the bridge. */

/* A daemon that was started for one measurement. */
struct daemon {
	pid_t pid;           /* 0: none */
	char directory[160]; /* of its socket; "": none */
	char socket[192];
};

enum { MESSAGES_BYTES = 16 * 1024 }; /* of the daemon's messages that are kept */

/* The address of nbbench's host, and the address of this host to which its ssh connected; false:
 * sshd did not set SSH_CONNECTION. */
static bool find_ends(char client[64], char server[64])
{
	const char *connection = getenv("SSH_CONNECTION");

	return connection && sscanf(connection, "%63s %*s %63s", client, server) == 2 &&
	       strcmp(client, "UNKNOWN") != 0;
}

/* Adds to the spec what it lacks: an address that other hosts can reach, and with `allow` a list
 * of those who may connect, which is nbbench's host alone. */
static char *complete(const char *spec, bool allow)
{
	char client[64], server[64];
	bool is_ipv6;

	if (!find_ends(client, server))
		return text_new("%s", spec);
	is_ipv6 = strchr(server, ':');
	allow = allow && !strstr(spec, ",allow=");
	if (strstr(spec, ",address="))
		return text_new("%s%s%s", spec, allow ? ",allow=" : "", allow ? client : "");
	return text_new("%s,address=%s%s%s%s%s", spec, is_ipv6 ? "[" : "", server,
			is_ipv6 ? "]" : "", allow ? ",allow=" : "", allow ? client : "");
}

/* A file in memory of a fixed size for the daemon's stderr: further messages are lost. */
static int open_messages(void)
{
	int fd = memfd_create("nbserved", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd >= 0 &&
	    (ftruncate(fd, MESSAGES_BYTES) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_GROW) < 0)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* The daemon's own messages, or the reason why it could not be started. */
static json_t *failure(const char *program, int rc, int messages)
{
	char text[MESSAGES_BYTES + 1] = "";
	ssize_t n = messages >= 0 ? pread(messages, text, MESSAGES_BYTES, 0) : 0;
	json_t *made;

	text[MAX(n, (ssize_t)0)] = '\0';
	if (!*text)
		snprintf(text, sizeof(text), "%s: %s", program,
			 rc < 0 && rc != -ECHILD ? strerror(-rc)
						 : "the daemon ended before it served");
	made = json_string(text);
	return json_pack("{s:o}", "message", made ? made : json_string("nbserved failed"));
}

static bool make_directory(struct daemon *d)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");

	if ((size_t)snprintf(d->directory, sizeof(d->directory), "%s/nbserved-XXXXXX",
			     runtime && *runtime == '/' ? runtime : "/tmp") >=
		    sizeof(d->directory) ||
	    !mkdtemp(d->directory)) {
		d->directory[0] = '\0';
		return false;
	}
	guard_remove(d->directory);
	snprintf(d->socket, sizeof(d->socket), "%s/control.sock", d->directory);
	return true;
}

static void end_daemon(struct daemon *d)
{
	if (d->pid)
		served_stop(d->pid);
	d->pid = 0;
	if (*d->directory)
		rmdir(d->directory); /* its socket is gone with it */
	d->directory[0] = '\0';
}

/* The reply: {}, or { "message": why it does not serve }. */
static json_t *start_daemon(struct daemon *d, const json_t *parameters)
{
	const char *build = field_text(parameters, "program");
	char *specs[SERVED_SPECS_MAX + 1] = { NULL };
	char *program = *build ? text_new("%s", build) : process_program("nbserved");
	json_t *list = field_get(parameters, "specs"), *spec, *made;
	int messages = open_messages(), rc = -EINVAL;
	size_t i;

	end_daemon(d);
	json_array_foreach(list, i, spec)
		if (i < SERVED_SPECS_MAX)
			specs[i] = complete(field_text(spec, ""), field_bool(parameters, "allow"));
	if (specs[0])
		rc = make_directory(d) ? served_start(program, specs, d->socket, messages, &d->pid)
				       : -errno;
	made = rc == 0 ? json_object() : failure(program, rc, messages);
	if (rc != 0)
		end_daemon(d);
	if (messages >= 0)
		close(messages);
	for (i = 0; specs[i]; i++)
		free(specs[i]);
	free(program);
	return made;
}

/* ---- The other calls ---- */

/* While a daemon is served, nbbench sends Alive each second, except when it waits for other hosts.
 */
enum { SERVE_SILENCE_MS = 20 * 1000 };

struct host_bridge {
	struct bridge bridge;
	const char *socket; /* of the daemon that is called unless Serve has started one */
	struct daemon served;
};

static json_t *describe(struct host_bridge *b, const json_t *parameters)
{
	const char *connection = getenv("SSH_CONNECTION");
	char network[HOST_NETWORK_BYTES];

	(void)b, (void)parameters;
	host_network(network);
	return json_pack("{s:s, s:s, s:s, s:o}", "version", NB_VERSION, "network", network,
			 "ssh_connection", connection ? connection : "", "conditions",
			 host_describe());
}

static json_t *read_host(struct host_bridge *b, const json_t *parameters)
{
	uint64_t pid = field_uint(parameters, "pid");

	(void)b;
	return host_read(pid > INT_MAX ? 0 : (pid_t)pid, field_get(parameters, "threads"),
			 field_get(parameters, "interfaces"));
}

/* The version of the load generator that a command runs. */
static json_t *version(struct host_bridge *b, const json_t *parameters)
{
	char **words = words_of(parameters);
	char *text = words[0] ? version_of(words) : NULL;
	json_t *made = json_pack("{s:s*}", "version", text);

	(void)b;
	free(text);
	free(words);
	return made;
}

/* Calls go to the daemon that has been started here, else to the one that runs. */
static void take_socket(struct host_bridge *b)
{
	bridge_set_socket(&b->bridge, b->served.pid ? b->served.socket : b->socket);
	b->bridge.silence_ms = b->served.pid ? SERVE_SILENCE_MS : 0;
}

static json_t *serve_here(struct host_bridge *b, const json_t *parameters)
{
	json_t *made = start_daemon(&b->served, parameters);

	take_socket(b);
	return made;
}

static json_t *end_here(struct host_bridge *b, const json_t *parameters)
{
	(void)parameters;
	end_daemon(&b->served);
	take_socket(b);
	return json_object();
}

static bool answer(struct bridge *bridge, const struct varlink_request *call, const char *method)
{
	struct host_bridge *b = (struct host_bridge *)(void *)bridge; /* its first member */
	static const struct {
		const char *name;
		json_t *(*answer)(struct host_bridge *b, const json_t *parameters);
	} methods[] = { { "Describe", describe },
			{ "Version", version },
			{ "Serve", serve_here },
			{ "Unserve", end_here },
			{ "Read", read_host } };

	if (!strcmp(method, "Run"))
		return run_command(&b->bridge.reader, call);
	for (unsigned i = 0; i < ARRAY_SIZE(methods); i++)
		if (!strcmp(methods[i].name, method))
			return bridge_put(json_pack("{s:o}", "parameters",
						    methods[i].answer(b, call->parameters)));
	return bridge_put_error("org.varlink.service.MethodNotFound",
				json_pack("{s:s}", "method", method));
}

static int run_bridge(struct ctl *ctl)
{
	struct host_bridge b = {
		.bridge = { .target = ctl->target, .answer = answer },
		.socket = ctl->target.socket,
	};

	leftovers_guard(ctl->argv);
	bridge_serve_calls(&b.bridge);
	end_daemon(&b.served);
	return CTL_DONE;
}

const struct command command_bridge = {
	.name = "bridge",
	.here = true,
	.arguments = "",
	.summary = "the far end of -H and --on, on stdin and stdout",
	.details =
		"`nbbench -H HOST` and `--on HOST` start it over ssh; there is no other use for it.\n",
	.example = "nbbench bridge <calls >replies",
	.json_instead = "nbctl status --json",
	.run = run_bridge,
};
