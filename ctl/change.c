/* Commands that change the running daemon: `nbctl drain`, `nbctl log-level`. */
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "field.h"
#include "log.h"

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

static int run_drain(struct ctl *ctl)
{
	const char *listener = ctl->word_count ? ctl->words[0] : NULL;

	return ctl_show(ctl, "Drain", json_pack("{s:s*}", "listener", listener), render_drain);
}

const struct command command_drain = {
	.name = "drain",
	.arguments = "[LISTENER]",
	.summary = "stop accepting, finish what is there",
	.details = "Without LISTENER every listener drains.  Connections may finish for the\n"
		   "configured drain-timeout; then they are closed.  Returns at once.\n",
	.example = "nbctl drain echo-epoll",
	.words_max = 1,
	.run = run_drain,
};

static void render_nothing(struct output *out, const json_t *reply)
{
	(void)out;
	(void)reply;
}

static int run_log_level(struct ctl *ctl)
{
	const char *level = ctl->words[0];

	if (log_level_parse(level) < 0)
		return ctl_usage(ctl, "expected error, warning, info or debug, got '%s'", level);
	return ctl_show(ctl, "SetLogLevel", json_pack("{s:s}", "level", level), render_nothing);
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
