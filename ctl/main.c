/* nbctl: the companion of a running nbserved.  To add a command: a struct command in a file of its
 * family, and a line here. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "process.h"
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

/* Kept until 0.3: `nbctl compare` and `nbctl report` now run nbbench's commands.  `report` wrote a
 * page to standard output, and `compare --load FILE` showed saved rows. */
static const struct command *other(struct ctl *ctl, const char *word)
{
	bool report = !strcmp(word, "report"), show = report, svg = false;
	char *argv[1024] = { NULL }, **to = argv + 1;

	if (!report && strcmp(word, "compare") != 0)
		return NULL;
	for (char **from = ctl->argv; *from && strcmp(*from, "--") != 0; from++) {
		show |= !strcmp(*from, "--load");
		svg |= report && !strcmp(*from, "--svg");
	}
	argv[0] = process_program("nbbench");
	for (char **from = ctl->argv + 1; *from && to < argv + ARRAY_SIZE(argv) - 4; from++) {
		if (show && !strcmp(*from, word)) {
			*to++ = (char *)"show";
			if (report)
				*to++ = (char *)(svg ? "--svg=-" : "--html=-");
		} else if (!show || (strcmp(*from, "--load") != 0 && strcmp(*from, "--svg") != 0)) {
			*to++ = *from;
		}
	}
	ctl_warn("`nbctl %s` is `nbbench %s` now, which this runs; it is gone in the next release",
		 word, show ? "show" : "compare");
	execvp(argv[0], argv);
	ctl_warn("cannot run %s: %m", argv[0]);
	exit(CTL_CANNOT_RUN);
}

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
	.other = other,
};

int main(int argc, char **argv)
{
	return program_main(&nbctl, argc, argv);
}
