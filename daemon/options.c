/* See options.h. */
#include "options.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
	"      --check-config     say whether FILE is good, serve nothing\n"
	"      --dump-config      print the effective configuration with its origins\n"
	"      --doctor           check this host, and each listener and export of FILE\n"
	"      --json             the output of these two as JSON\n"
	"  -V, --version\n"
	"  -h, --help\n"
	"\n"
	"SIGTERM drains and ends; a second one ends at once.  SIGHUP reloads FILE, as\n"
	"`nbctl reload` does.\n"
	"\n"
	"nbctl(1) shows and controls a running daemon; nbbench(1) measures.\n";

int options_finish_output(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return EXIT_SUCCESS;
	fprintf(stderr, "nbserved: cannot write the output: %s\n", strerror(errno));
	return EXIT_FAILURE;
}

static int check_run(const struct options *o)
{
	if (o->json && o->action != ACTION_DUMP && o->action != ACTION_DOCTOR) {
		fprintf(stderr, "nbserved: --json is of --dump-config and --doctor; try --help\n");
		return -EINVAL;
	}
	if (o->run.count == 0 || (!o->config && o->action == ACTION_SERVE))
		return 0;
	fprintf(stderr,
		"nbserved: --run needs no file: not with --config, --check-config and their "
		"like; try --help\n");
	return -EINVAL;
}

/* clang-format off */
static const struct option options[] = {
	{ "json", no_argument, NULL, 'j' },
	{ "config", required_argument, NULL, 'c' },
	{ "check-config", no_argument, NULL, 'k' },
	{ "dump-config", no_argument, NULL, 'd' },
	{ "dump-keys", no_argument, NULL, 'K' },
	{ "doctor", no_argument, NULL, 'D' },
	{ "run", required_argument, NULL, 'r' },
	{ "bench", optional_argument, NULL, 'B' }, /* of 0.2.0 */
	{ "at", required_argument, NULL, 'B' },
	{ "version", no_argument, NULL, 'V' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};
/* clang-format on */

int options_parse(struct options *o, int argc, char **argv)
{
	struct run_mode *run = &o->run;
	int c;

	while ((c = getopt_long(argc, argv, "+c:hV", options, NULL)) >= 0) {
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
		case 'B':
			fputs("nbserved: --bench WORD is `nbbench WORD` now, and --at HOST its -H\n",
			      stderr);
			return -EINVAL;
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
			run->count ? ": `nbbench run` measures with a command" : "");
		return -EINVAL;
	}
	return check_run(o);
}
