/* Commands that change the running daemon: `nbctl drain`, `nbctl log-level`. */
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "field.h"

/* What the daemon says it did; old daemons say nothing. */
static void render_done(struct output *out, const json_t *reply)
{
	const char *message = field_text(reply, "message");

	if (*message)
		output_wrapped(out, STYLE_PLAIN, 2, "%s", message);
}

static int run_drain(struct ctl *ctl)
{
	const char *listener = ctl->word_count ? ctl->words[0] : NULL;
	int rc = ctl_show(ctl, "Drain", json_pack("{s:s*}", "listener", listener), render_done);

	if (rc == CTL_DONE && !ctl->out.json)
		output_text(&ctl->out, STYLE_PLAIN,
			    "Draining%s%s%s; `nbctl status` shows how far it is.\n",
			    listener ? " '" : " every listener", listener ? listener : "",
			    listener ? "'" : "");
	return rc;
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

static int run_log_level(struct ctl *ctl)
{
	return ctl_show(ctl, "SetLogLevel", json_pack("{s:s}", "level", ctl->words[0]),
			render_done);
}

const struct command command_log_level = {
	.name = "log-level",
	.arguments = "LEVEL",
	.summary = "how much the daemon logs, until it restarts",
	.details =
		"LEVEL is one of the configuration's `log-level`: error, warning, info, debug.\n",
	.example = "nbctl log-level debug",
	.words_min = 1,
	.words_max = 1,
	.run = run_log_level,
};
