/* nbctl: the companion of a running nbserved.  To add a command: a struct command in a file of its
 * family, and a line here. */
#include "program.h"
#include "util.h"

extern const struct command command_status, command_stats, command_top, command_metrics,
	command_connections, command_exports, command_drain, command_resume, command_log_level,
	command_reload, command_config, command_doctor, command_bridge;

static const struct command *const commands[] = {
	&command_status,      &command_stats,   &command_top,    &command_metrics,
	&command_connections, &command_exports, &command_drain,  &command_resume,
	&command_log_level,   &command_reload,  &command_config, &command_doctor,
	&command_bridge,
};

static const struct program_retired retired[] = {
	{ "compare", NULL, "use `nbbench compare`, `nbbench show FILE` for saved rows" },
	{ "report", NULL, "use `nbbench show --html FILE ROWS`" },
	{ "tests", NULL, "journalctl -u nbserved has a line for each test" },
	{ "history", NULL, "use `nbbench compare --save FILE`, and `nbbench show FILE`" },
	{ "set", NULL, "write a file in conf.d, and `nbctl reload --dry-run`" },
	{ "add", NULL, "write a file in conf.d, and `nbctl reload --dry-run`" },
	{ "remove", NULL, "`nbctl drain`, or take it out of its file and `nbctl reload`" },
	{ "confirm", NULL, "`nbctl reload --dry-run` shows what a reload would change" },
	{ "reload", "confirm", "`nbctl reload --dry-run` shows what a reload would change" },
	{ "connections", "sort", "use --json, and `jq '.connections | sort_by(.bytes_in)'`" },
	{ "connections", "limit", "all are listed: use head" },
	{ "stats", "active", "`nbctl stats --watch` has the listeners that do something" },
	{ "top", "by-worker", "use `nbctl stats --by-worker --watch`" },
	{ "config", "diff", "`nbctl config` names the file and line of each key" },
};

static const struct program nbctl = {
	.name = "nbctl",
	.about = "Queries and controls a running nbserved; nbbench(1) measures with it.",
	.status =
		"Exit status: 0 done, 1 refused by the daemon, 2 usage, 3 daemon unreachable, 4 a "
		"restart\nof the daemon is needed.\n",
	.commands = commands,
	.command_count = ARRAY_SIZE(commands),
	.retired = retired,
	.retired_count = ARRAY_SIZE(retired),
};

int main(int argc, char **argv)
{
	return program_main(&nbctl, argc, argv);
}
