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
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bridge_host.h"
#include "child.h"
#include "field.h"
#include "host.h"
#include "must.h"
#include "util.h"

enum {
	RUN_REPORT_MS = 50,
	RUN_SILENCE_MS = 10000,
};

/* The first bytes of a UTF-8 character at the end of the output so far: they wait for the rest. */
struct begun {
	char data[3];
	size_t bytes;
};

struct run {
	struct varlink_reader *reader;
	uint64_t active_ns;    /* when the last call came */
	uint64_t reported_ns;  /* when the last reply with CPU time was sent; 0: none yet */
	bool idle;             /* Idle has come since the last look */
	bool silent;           /* nbbench is gone: no more replies, the command is being ended */
	struct begun begun[2]; /* of stdout, and of stderr */
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
		hear(r, text, bytes);
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
 * is anything else, each byte outside ASCII becomes a '?'. */
static json_t *text_of(char *text, size_t bytes)
{
	json_t *made = memchr(text, 0, bytes) ? NULL : json_stringn(text, bytes);

	for (size_t i = 0; i < bytes && !made; i++)
		if ((unsigned char)text[i] >= 0x80 || !text[i])
			text[i] = '?';
	return made ? made : json_stringn(text, bytes);
}

static void pass_on(struct run *r, bool errors, char *text, size_t bytes)
{
	if (bytes && !r->silent &&
	    !bridge_put(json_pack("{s:{s:o}, s:b}", "parameters", errors ? "errors" : "output",
				  text_of(text, bytes), "continues", true)))
		peer_is_gone(r);
}

static void run_output(void *context, bool errors, const char *data, size_t bytes)
{
	struct run *r = context;
	struct begun *begun = &r->begun[errors];
	char *text = must(malloc(begun->bytes + bytes));
	size_t whole;

	memcpy(text, begun->data, begun->bytes);
	memcpy(text + begun->bytes, data, bytes);
	bytes += begun->bytes;
	whole = bridge_whole_characters(text, bytes);
	begun->bytes = bytes - whole;
	memcpy(begun->data, text + whole, begun->bytes);
	pass_on(r, errors, text, whole);
	free(text);
}

static json_t *child_to_json(const struct child *child)
{
	char cpus[256] = "";

	host_cpus_text(&child->cpus, cpus, sizeof(cpus));
	return json_pack("{s:i, s:b, s:I, s:o, s:s}", "status", child->status, "timed_out",
			 child->timed_out, "wall_ns", (json_int_t)child->wall_ns, "use",
			 use_to_json(&child->use), "cpus", cpus);
}

bool bridge_run(struct varlink_reader *reader, const struct varlink_request *call)
{
	uint64_t timeout_ms = field_uint(call->parameters, "timeout_ms");
	char **words = bridge_words(call->parameters);
	struct run run = { .reader = reader, .active_ns = clock_ns() };
	struct watcher watcher = { &run, run_fd, run_wait_ms, run_look, run_output };
	struct child child;
	json_t *last;

	if (!words[0] || !call->more || timeout_ms > UINT32_MAX) {
		free(words);
		return bridge_put_error("org.varlink.service.InvalidParameter",
					json_pack("{s:s}", "parameter", "argv"));
	}
	signal(SIGPIPE,
	       SIG_IGN); /* a lost nbbench must not kill the bridge before the command ends */
	child_catch_signals();
	child_run(words, CHILD_PASS, false, (unsigned)timeout_ms, &watcher, &child);
	for (unsigned i = 0; i < ARRAY_SIZE(run.begun); i++)
		pass_on(&run, i, run.begun[i].data, run.begun[i].bytes);
	child_release_signals();
	free(words);
	last = child_to_json(&child);
	child_free(&child);
	if (!run.silent)
		return bridge_put(json_pack("{s:o}", "parameters", last));
	json_decref(last);
	return false;
}
