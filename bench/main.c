/* nbbench: asks what an operation costs, with daemons of its own or one that runs.  To add a
 * command: a struct command in a file of run/, and a line here. */
#include "bench.h"
#include "program.h"
#include "util.h"

extern const struct command command_words, command_run, command_compare, command_show, command_list,
	command_bridge;

static const struct command *const commands[] = {
	&command_words, &command_run,  &command_compare,
	&command_show,  &command_list, &command_bridge,
};

static const struct program_retired retired[] = {
	{ "report", NULL, "use `nbbench show --html FILE ROWS`" },
	{ NULL, "load", "use `nbbench show FILE`" },
	{ NULL, "nbctl", "nbbench runs on the other host now: use --nbbench COMMAND" },
	{ NULL, "interval",
	  "use `-- sleep SECONDS`; `nbctl stats --watch` shows what listeners do" },
	{ NULL, "serve", "use `nbbench run SPEC -- COMMAND`" },
	{ NULL, "link", "the speed is what the card's driver tells" },
	{ NULL, "csv", "use --json, and `jq -r` with @csv" },
	{ NULL, "columns", "use --wide, or --json and jq; nbbench(1) explains the columns" },
	{ NULL, "pair", "name both listeners, the old one first: --json has the verdict" },
	{ NULL, "undecided", "take exit status 6 as a success" },
	{ NULL, "markdown", "use --html FILE, or --json and jq" },
	{ NULL, "notes", "nbbench(1) explains the columns, --json has all figures" },
	{ NULL, "junit", "use --json: its limits, and the gate of each row" },
	{ NULL, "control", "name the listener as well: its row is the control" },
	{ NULL, "layers",
	  "use `perf record -g -p $(pidof nbserved)`, then `perf report --sort comm,dso,symbol`" },
	{ NULL, "stacks", "use perf record and flamegraph.pl" },
	{ NULL, "softirq", "bpftrace tells softirq time by port" },
};

/* `nbbench echo disk`. */
static const struct command *other(struct ctl *ctl, const char *word)
{
	(void)ctl;
	return bench_knows(word) ? &command_words : NULL;
}

static const struct program nbbench = {
	.name = "nbbench",
	.about =
		"Measures what an operation costs a server: runs load generators against nbserved.",
	.status =
		"Exit status: that of the load generator; else 0 done, 1 refused by the daemon, 2 usage, "
		"3 daemon\nunreachable, 5 something got worse, 6 it may have, 7 it cannot be compared, "
		"8 nothing was\nmeasured.\n",
	.commands = commands,
	.command_count = ARRAY_SIZE(commands),
	.retired = retired,
	.retired_count = ARRAY_SIZE(retired),
	.other = other,
};

int main(int argc, char **argv)
{
	return program_main(&nbbench, argc, argv);
}
