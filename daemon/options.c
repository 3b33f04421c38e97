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
#include "process.h"

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

/* Until 0.3: `--run SPEC -- COMMAND` and `--bench WORD` are nbbench's `run SPEC -- COMMAND` and
 * `WORD`. Does not return if argv has one of them. */
static void exec_nbbench(int argc, char **argv)
{
	bool bench = false, command = false;
	char **words, **to;

	for (int i = 1; i < argc && !command; i++) {
		bench |= !strcmp(argv[i], "--bench") || !strncmp(argv[i], "--bench=", 8);
		command = !strcmp(argv[i], "--");
	}
	if (!bench && !command)
		return;
	words = calloc((size_t)argc + 4, sizeof(*words));
	if (!words)
		return;
	words[0] = process_program("nbbench");
	to = words + 1;
	for (int i = 1; i + 1 < argc && strcmp(argv[i], "--") != 0; i++)
		if (!strcmp(argv[i], "--at")) {
			*to++ = (char *)"-H";
			*to++ = argv[i + 1];
		}
	if (!bench)
		*to++ = (char *)"run";
	command = false;
	for (int i = 1; i < argc; i++) {
		bool next = i + 1 < argc && argv[i + 1][0] != '-';

		command |= !strcmp(argv[i], "--");
		if (command)
			*to++ = argv[i];
		else if (!strcmp(argv[i], "--at"))
			i++;
		else if (!strncmp(argv[i], "--bench=", 8))
			*to++ = argv[i] + 8;
		else if (!strcmp(argv[i], "--bench"))
			*to++ = !next                         ? (char *)"echo"
				: strcmp(argv[i + 1], "help") ? argv[++i]
							      : (i++, (char *)"list");
		else if (strcmp(argv[i], "--run") != 0)
			*to++ = argv[i];
	}
	fprintf(stderr, "nbserved: %s, which this runs; it is gone in the next release\n",
		bench ? "`--bench WORD` is `nbbench WORD` now"
		      : "`--run SPEC -- COMMAND` is `nbbench run SPEC -- COMMAND` now");
	execvp(words[0], words);
	fprintf(stderr, "nbserved: cannot run %s: %s\n", words[0], strerror(errno));
	exit(EXIT_FAILURE);
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
	{ "version", no_argument, NULL, 'V' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};
/* clang-format on */

int options_parse(struct options *o, int argc, char **argv)
{
	struct run_mode *run = &o->run;
	int c;

	exec_nbbench(argc, argv);
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
