/* `nbctl bridge`: the far end of `nbctl -H HOST`. */
#include "bridge.h"
#include "ctl.h"

static int run_bridge(struct ctl *ctl)
{
	struct bridge b = { .target = ctl->target };

	bridge_serve_calls(&b);
	return CTL_DONE;
}

const struct command command_bridge = {
	.name = "bridge",
	.here = true,
	.arguments = "",
	.summary = "the far end of `nbctl -H HOST`, on stdin and stdout",
	.details = "`nbctl -H HOST` starts it over ssh; there is no other use for it.\n",
	.example = "nbctl bridge <calls >replies",
	.json_instead = "nbctl status --json",
	.run = run_bridge,
};
