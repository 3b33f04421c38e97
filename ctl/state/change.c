/* Commands that change the running daemon: `nbctl drain`, `nbctl resume`, `nbctl log-level`. */
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "field.h"
#include "log_level.h"

static void render_drain(struct output *out, const json_t *reply)
{
	char *names = field_show(field_get(reply, "draining"));

	if (*names)
		output_wrapped(out, STYLE_PLAIN, 2,
			       "Draining: %s. `nbctl status` shows how far it is.", names);
	else
		output_text(out, STYLE_PLAIN, "Nothing to drain.\n");
	free(names);
}

enum { VALUE_ALL };

/* Calls the method for one listener, or with --all for all; the choice must be explicit. */
static int run_for_listeners(struct ctl *ctl, const char *method,
			     void (*render)(struct output *out, const json_t *reply))
{
	const char *listener = ctl->word_count ? ctl->words[0] : NULL;

	if (!listener == !ctl->values[VALUE_ALL])
		return ctl_usage(ctl, "expected a LISTENER or --all");
	return ctl_show(ctl, method, json_pack("{s:s*}", "listener", listener), render);
}

static int run_drain(struct ctl *ctl)
{
	return run_for_listeners(ctl, "Drain", render_drain);
}

const struct command command_drain = {
	.name = "drain",
	.arguments = "[LISTENER]",
	.summary = "stop accepting, serve open connections to their end",
	.details =
		"Connections may finish for the configured drain-timeout; then they are closed.\n"
		"Returns at once.  The listener stays drained over reloads, until `nbctl resume`.\n",
	.example = "nbctl drain echo-epoll\nnbctl drain --all",
	.words_max = 1,
	.options = { [VALUE_ALL] = { "all", OPTION_FLAG, NULL, "every listener" } },
	.run = run_drain,
};

static void render_resume(struct output *out, const json_t *reply)
{
	char *names = field_show(field_get(reply, "resumed"));

	if (*names)
		output_wrapped(out, STYLE_PLAIN, 2, "Serving again: %s", names);
	else
		output_text(out, STYLE_PLAIN, "Nothing to resume.\n");
	free(names);
}

static int run_resume(struct ctl *ctl)
{
	return run_for_listeners(ctl, "Resume", render_resume);
}

const struct command command_resume = {
	.name = "resume",
	.arguments = "[LISTENER]",
	.summary = "have a drained listener accept again",
	.details =
		"It is made again from the configuration in force, as a reload would: its counters\n"
		"begin at 0.  One that is unavailable is tried again; --all leaves those alone.\n"
		"When one cannot serve, says why, changes nothing and exits 1.\n",
	.example = "nbctl resume echo-epoll\nnbctl resume --all",
	.words_max = 1,
	.options = { [VALUE_ALL] = { "all", OPTION_FLAG, NULL,
				     "every listener that was drained" } },
	.run = run_resume,
};

static int run_log_level(struct ctl *ctl)
{
	const char *level = ctl->words[0];

	if (log_level_parse(level) < 0)
		return ctl_usage(ctl, "expected error, warning, info or debug, got '%s'", level);
	return ctl_show(ctl, "SetLogLevel", json_pack("{s:s}", "level", level), NULL);
}

const struct command command_log_level = {
	.name = "log-level",
	.arguments = "LEVEL",
	.summary = "how much the daemon logs, until the next reload or start",
	.details =
		"LEVEL is one of the configuration's `log-level`: error, warning, info, debug.\n",
	.example = "nbctl log-level debug",
	.words_min = 1,
	.words_max = 1,
	.run = run_log_level,
};
