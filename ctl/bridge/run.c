/* org.nbserved.Host.Run: a load generator on this host for `nbctl compare --on`.
 *
 * Run(argv, timeout_ms) with `more` replies with its CPU time every 50 ms, and at last with its
 * status, its output and its times.  Meanwhile three calls without a reply are taken: Alive, each
 * second; Idle, there was no load so far; Stop, which ends the command.  So does the end of input,
 * or ten seconds without a call: nothing is left running. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bridge.h"
#include "child.h"
#include "field.h"
#include "host.h"
#include "util.h"

enum {
	RUN_REPORT_MS = 50,
	RUN_SILENCE_MS = 10000,
};

struct run {
	struct varlink_reader *reader;
	uint64_t heard_ns, told_ns;
	bool idle;   /* there was no load so far */
	bool silent; /* nbctl is gone, and the command is being ended */
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

static void hear(struct run *r, const char *text, size_t bytes)
{
	struct varlink_request call;

	if (varlink_request_parse(text, bytes, &call) < 0) {
		peer_is_gone(r);
		return;
	}
	r->heard_ns = clock_ns();
	if (!strcmp(call.method, "org.nbserved.Host.Stop"))
		stop(call.parameters);
	else if (!strcmp(call.method, "org.nbserved.Host.Idle"))
		r->idle = true;
	else if (strcmp(call.method, "org.nbserved.Host.Alive") != 0)
		peer_is_gone(r);
	varlink_request_free(&call);
}

/* Takes what has come on stdin. */
static void listen_to(struct run *r)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	const char *text;
	char data[4096];
	size_t bytes;
	ssize_t n;
	int rc;

	while ((rc = varlink_reader_next(r->reader, &text, &bytes)) == 1)
		hear(r, text, bytes);
	if (rc < 0)
		peer_is_gone(r);
	if (r->silent || poll(&input, 1, 0) <= 0)
		return;
	n = read(STDIN_FILENO, data, sizeof(data));
	if (n == 0 || (n < 0 && errno != EINTR) ||
	    (n > 0 && varlink_reader_feed(r->reader, data, (size_t)n) < 0))
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
	(void)context;
	return RUN_REPORT_MS;
}

static bool run_look(void *context, const struct use *use)
{
	struct run *r = context;
	uint64_t now_ns = clock_ns();
	bool idle;

	if (!r->silent)
		listen_to(r);
	if (now_ns > r->heard_ns + RUN_SILENCE_MS * (uint64_t)NS_PER_MS)
		peer_is_gone(r);
	idle = r->idle;
	r->idle = false;
	if (r->silent || now_ns < r->told_ns + RUN_REPORT_MS * NS_PER_MS)
		return idle;
	r->told_ns = now_ns;
	if (!bridge_put(json_pack("{s:{s:o}, s:b}", "parameters", "use", use_to_json(use),
				  "continues", true)))
		peer_is_gone(r);
	return idle;
}

/* A command may print anything; JSON has only UTF-8. */
static json_t *text_of(char *text)
{
	json_t *made = json_string(text);

	for (char *at = text; !made && *at; at++)
		if ((unsigned char)*at >= 0x80)
			*at = '?';
	return made ? made : json_string(text);
}

static json_t *child_to_json(struct child *child)
{
	char cpus[256] = "";

	host_cpus_text(&child->cpus, cpus, sizeof(cpus));
	return json_pack("{s:i, s:b, s:I, s:o, s:s, s:o*, s:o*}", "status", child->status,
			 "timed_out", child->timed_out, "wall_ns", (json_int_t)child->wall_ns,
			 "use", use_to_json(&child->use), "cpus", cpus, "output",
			 child->output ? text_of(child->output) : NULL, "errors",
			 child->errors ? text_of(child->errors) : NULL);
}

bool bridge_run(struct varlink_reader *reader, const struct varlink_request *call)
{
	uint64_t timeout_ms = field_uint(call->parameters, "timeout_ms");
	char **words = bridge_words(call->parameters);
	struct run run = { .reader = reader, .heard_ns = clock_ns() };
	struct watcher watcher = { &run, run_fd, run_wait_ms, run_look };
	struct child child;
	json_t *last;

	if (!words[0] || !call->more || timeout_ms > UINT32_MAX) {
		free(words);
		return bridge_put_error("org.varlink.service.InvalidParameter",
					json_pack("{s:s}", "parameter", "argv"));
	}
	signal(SIGPIPE, SIG_IGN); /* the command is to be ended first */
	child_catch_signals();
	child_run(words, CHILD_KEEP, true, (unsigned)timeout_ms, &watcher, &child);
	child_release_signals();
	free(words);
	last = child_to_json(&child);
	child_free(&child);
	if (!run.silent)
		return bridge_put(json_pack("{s:o}", "parameters", last));
	json_decref(last);
	return false;
}
