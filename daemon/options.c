/* See options.h. */
#include "options.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "config_run.h"

static const char usage[] =
	"usage: nbserved [OPTION]...\n"
	"A long-running target for network and storage benchmarks over epoll, io_uring and RDMA.\n"
	"Serves the listeners and exports that FILE configures, see nbserved.ini(5).\n"
	"\n"
	"  -c, --config FILE      the configuration (default " DEFAULT_CONFIG ")\n"
	"      --run SERVICE[,KEY=VALUE]...\n"
	"                         serve this on 127.0.0.1, without a file; may be repeated;\n"
	"                         --run help lists services and engines\n"
	"      --at HOST          ... on that host, over ssh, for the command behind `--`\n"
	"      --bench [WORD]     measure echo, disk, https, bulk, ... with a generator that is\n"
	"                         installed; --bench help lists the words\n"
	"      --check-config     say whether FILE is good, serve nothing\n"
	"      --dump-config      print the effective configuration with its origins\n"
	"      --doctor           check this host, and each listener and export of FILE\n"
	"      --json             the output of these two, and of a comparison, as JSON\n"
	"  -V, --version\n"
	"  -h, --help\n"
	"\n"
	"  nbserved --run echo,engine=all -- redis-benchmark -p {port} -t set -q\n"
	"runs a load generator against one listener after the other, compares them, and ends:\n"
	"`nbctl compare`, whose --repeat, --time, --within, --label, --save, --against,\n"
	"--force, --fail-if, --undecided, --markdown, --html, --wide, --columns,\n"
	"--quiet, --layers, --timeout, --build, --sweep, --sweep-max,\n"
	"--seed and --on it takes as well.\n"
	"\n"
	"SIGTERM drains and ends; a second one ends at once.  SIGHUP reloads FILE, as\n"
	"`nbctl reload` does.  nbctl(1) looks inside.\n";

int options_finish_output(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return EXIT_SUCCESS;
	fprintf(stderr, "nbserved: cannot write the output: %s\n", strerror(errno));
	return EXIT_FAILURE;
}

/* Stores an option for `nbctl compare`, which --run passes on. */
static int run_option(struct run_mode *run, const char *name, char *value)
{
	static char text[RUN_OPTIONS_MAX][32];

	if (run->option_count + 2 > RUN_OPTIONS_MAX) {
		fprintf(stderr, "nbserved: too many options\n");
		return -EINVAL;
	}
	snprintf(text[run->option_count], sizeof(text[0]), "--%s", name);
	run->options[run->option_count] = text[run->option_count];
	run->option_count++;
	if (value)
		run->options[run->option_count++] = value;
	return 0;
}

/* nbctl carries out the sweep; this program needs the values as well,
 * to check the configuration. */
static int add_sweep(struct run_mode *run, const char *text)
{
	struct reason reason = { "" };
	int rc = sweeps_add(&run->sweeps, text, &reason);

	if (rc < 0)
		fprintf(stderr, "nbserved: %s; try --help\n", reason.text);
	return rc;
}

static int check_run(const struct options *o)
{
	const struct run_mode *run = &o->run;
	const char *wrong = NULL;

	if (o->bench && (run->count || run->command || run->at))
		wrong = "--bench chooses listeners and command: without --run, --at and a command";
	else if (o->bench && (o->config || o->action != ACTION_SERVE))
		wrong = "--bench needs no file: not with --config, --check-config and their like";
	else if (o->bench)
		return 0;
	else if (run->count == 0 && (run->command || run->option_count))
		wrong = "a command and the options of comparisons need --run";
	else if (run->count && (o->config || o->action != ACTION_SERVE))
		wrong = "--run needs no file: not with --config, --check-config and their like";
	else if (run->command && !run->command[0])
		wrong = "there is no command after `--`";
	else if (run->at && !(run->count && run->command))
		wrong = "--at is the host of the daemon of `--run SERVICE -- COMMAND`";
	else if (run->option_count && !run->command)
		wrong = "options of comparing need a command: `--run SERVICE -- COMMAND`";
	if (wrong)
		fprintf(stderr, "nbserved: %s; try --help\n", wrong);
	return wrong ? -EINVAL : 0;
}

/* clang-format off */
/* What `nbctl compare` takes and is handed on, with a value or without. */
#define VALUE(name) { name, required_argument, NULL, 'o' }
#define FLAG(name)  { name, no_argument, NULL, 'o' }

static const struct option options[] = {
	VALUE("repeat"), VALUE("time"), VALUE("within"), VALUE("label"), VALUE("save"), VALUE("against"),
	VALUE("fail-if"), VALUE("undecided"), VALUE("html"), VALUE("columns"),
	VALUE("timeout"), VALUE("build"), VALUE("sweep-max"), 
	VALUE("seed"), VALUE("on"), FLAG("force"),  FLAG("markdown"),
	FLAG("wide"),  FLAG("layers"), FLAG("quiet"),
	/* Removed: nbctl says so. */
	FLAG("softirq"), VALUE("stacks"), FLAG("csv"), FLAG("notes"), VALUE("control"),
	VALUE("link"), VALUE("junit"),
	{ "json", no_argument, NULL, 'j' },
	{ "sweep", required_argument, NULL, 's' },
	{ "config", required_argument, NULL, 'c' },
	{ "check-config", no_argument, NULL, 'k' },
	{ "dump-config", no_argument, NULL, 'd' },
	{ "dump-keys", no_argument, NULL, 'K' },
	{ "doctor", no_argument, NULL, 'D' },
	{ "run", required_argument, NULL, 'r' },
	{ "bench", optional_argument, NULL, 'b' },
	{ "at", required_argument, NULL, 'a' },
	{ "version", no_argument, NULL, 'V' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};
/* clang-format on */

int options_parse(struct options *o, int argc, char **argv)
{
	struct run_mode *run = &o->run;
	int c, index;

	for (int i = 1; i < argc; i++) /* getopt must not permute the command after `--` */
		if (!strcmp(argv[i], "--")) {
			run->command = &argv[i + 1];
			argc = i;
		}
	while ((c = getopt_long(argc, argv, "+c:hV", options, &index)) >= 0) {
		switch (c) {
		case 'r':
			assert(optarg); /* the option requires it */
			if (run->count == RUN_SPECS_MAX) {
				fprintf(stderr, "nbserved: at most %d --run\n", RUN_SPECS_MAX);
				return -EINVAL;
			}
			if (!strcmp(optarg, "help")) {
				config_run_help(stdout);
				exit(options_finish_output());
			}
			run->specs[run->count++] = optarg;
			break;
		case 'b':
			o->bench = optarg ? optarg : BENCH_DEFAULT;
			if (!optarg && optind < argc && argv[optind][0] != '-')
				o->bench = argv[optind++];
			if (!strcmp(o->bench, "help")) {
				bench_help(stdout);
				exit(options_finish_output());
			}
			break;
		case 's':
			if (add_sweep(run, optarg) < 0 || run_option(run, "sweep", optarg) < 0)
				return -EINVAL;
			break;
		case 'o':
			if (run_option(run, options[index].name, optarg) < 0)
				return -EINVAL;
			break;
		case 'a':
			run->at = optarg;
			break;
		case 'j':
			o->json = true;
			break;
		case 'c':
			o->config = optarg;
			break;
		case 'k':
			o->action = ACTION_CHECK;
			break;
		case 'd':
			o->action = ACTION_DUMP;
			break;
		case 'K':
			o->action = ACTION_DUMP_KEYS;
			break;
		case 'D':
			o->action = ACTION_DOCTOR;
			break;
		case 'V':
			puts("nbserved " NB_VERSION);
			exit(options_finish_output());
		case 'h':
			fputs(usage, stdout);
			exit(options_finish_output());
		default: /* getopt has printed the error */
			fputs("nbserved: try --help\n", stderr);
			return -EINVAL;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "nbserved: unexpected argument '%s'%s; try --help\n", argv[optind],
			run->count ? ": a command comes behind ` -- `" : "");
		return -EINVAL;
	}
	/* It applies to the output of actions that print; with a comparison it is nbctl's. */
	if (o->json && o->action != ACTION_DUMP && o->action != ACTION_DOCTOR &&
	    run_option(run, "json", NULL) < 0)
		return -EINVAL;
	return check_run(o);
}
