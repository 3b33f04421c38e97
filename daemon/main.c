/* nbserved: options, start, the service manager, the event loop of the main thread. */
#include <errno.h>
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-event.h>
#include <unistd.h>

#include "config.h"
#include "doctor.h"
#include "log.h"
#include "server.h"
#include "util.h"
#include "watchdog.h"

#define DEFAULT_CONFIG "/etc/nbserved/nbserved.ini"

enum action {
	ACTION_SERVE,
	ACTION_CHECK,
	ACTION_DUMP,
	ACTION_DUMP_JSON,
	ACTION_DUMP_KEYS,
	ACTION_DOCTOR
};

static const char usage[] =
	"usage: nbserved [OPTION]...\n"
	"The far end of network and storage benchmarks, over epoll, io_uring and RDMA: serves\n"
	"what the listeners and exports of FILE say, see nbserved.ini(5).\n"
	"\n"
	"  -c, --config FILE      the configuration (default " DEFAULT_CONFIG ")\n"
	"      --check-config     say whether FILE is good, open nothing\n"
	"      --dump-config[=json]\n"
	"                         print the effective configuration with its origins\n"
	"      --doctor           say what this host allows, and what FILE would get\n"
	"  -V, --version\n"
	"  -h, --help\n"
	"\n"
	"SIGTERM drains and ends; a second one ends at once.  SIGHUP reloads FILE, as\n"
	"`nbctl reload` does.  nbctl(1) looks inside.\n";

/* The exit status of what only prints: a full disk must not go unnoticed. */
static int finish_output(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return EXIT_SUCCESS;
	fprintf(stderr, "nbserved: cannot write the output: %s\n", strerror(errno));
	return EXIT_FAILURE;
}

static int parse_options(int argc, char **argv, const char **config, enum action *action)
{
	static const struct option options[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "check-config", no_argument, NULL, 'k' },
		{ "dump-config", optional_argument, NULL, 'd' },
		{ "dump-keys", no_argument, NULL, 'K' },
		{ "doctor", no_argument, NULL, 'D' },
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "c:hV", options, NULL)) >= 0) {
		switch (c) {
		case 'c':
			*config = optarg;
			break;
		case 'k':
			*action = ACTION_CHECK;
			break;
		case 'd':
			if (optarg && strcmp(optarg, "json") != 0) {
				fprintf(stderr, "nbserved: --dump-config=%s: expected json\n",
					optarg);
				return -EINVAL;
			}
			*action = optarg ? ACTION_DUMP_JSON : ACTION_DUMP;
			break;
		case 'K':
			*action = ACTION_DUMP_KEYS;
			break;
		case 'D':
			*action = ACTION_DOCTOR;
			break;
		case 'V':
			puts("nbserved " NB_VERSION);
			exit(finish_output());
		case 'h':
			fputs(usage, stdout);
			exit(finish_output());
		default:
			return -EINVAL;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "nbserved: unexpected argument '%s'; try --help\n", argv[optind]);
		return -EINVAL;
	}
	return 0;
}

/* Frees them. */
static void print_errors(struct config_errors *errors)
{
	for (unsigned i = 0; i < errors->count && i < CONFIG_ERRORS_MAX; i++)
		log_error("%s", errors->text[i]);
	if (errors->count > CONFIG_ERRORS_MAX)
		log_error("and %u more error%s", errors->count - CONFIG_ERRORS_MAX,
			  plural(errors->count - CONFIG_ERRORS_MAX));
	config_errors_free(errors);
}

/* The configuration, or NULL with every error printed. */
static struct config *load(const char *path)
{
	struct config_errors errors = { 0 };
	struct config *config = NULL;

	config_load(path, &config, &errors);
	print_errors(&errors);
	return config;
}

static int dump_json(const struct config *config)
{
	json_t *json = config_to_json(config);

	if (!json || json_dumpf(json, stdout, JSON_INDENT(2)) < 0)
		return -ENOMEM;
	putchar('\n');
	json_decref(json);
	return 0;
}

/* Good, and what will be unavailable all the same; or what only the files tell.  0 or -EINVAL. */
static int check(const char *path, struct config *config)
{
	struct config_errors errors = { 0 };
	unsigned wrong;

	config_check_paths(config, &errors);
	wrong = errors.count;
	print_errors(&errors);
	if (wrong)
		return -EINVAL;
	printf("%s: good, %u listener%s, %u export%s\n", path, config->listener_count,
	       plural(config->listener_count), config->export_count, plural(config->export_count));
	for (unsigned i = 0; i < config->listener_count; i++) {
		const struct listener_config *l = &config->listeners[i];

		if (config_absent(l))
			printf("%s:%u: [listener %s]: unavailable here: %s\n", l->section.file,
			       l->section.line, l->name, config_absent(l));
	}
	return 0;
}

/* ---- Serving ---- */

static int on_terminate(sd_event_source *source, const struct signalfd_siginfo *info, void *context)
{
	struct server *s = context;

	(void)source;
	if (s->stopping) {
		log_warning("second %s: ending at once", strsignal((int)info->ssi_signo));
		return sd_event_exit(s->event, 0);
	}
	log_info("%s: draining", strsignal((int)info->ssi_signo));
	notify(&s->notify, "STOPPING=1\nSTATUS=Draining");
	server_drain(s);
	return 0;
}

static int on_hangup(sd_event_source *source, const struct signalfd_siginfo *info, void *context)
{
	struct reload_answer answer;

	(void)source, (void)info;
	log_info("%s: reloading", strsignal(SIGHUP));
	reload_run(context, &(struct reload_request){ 0 }, &answer);
	json_decref(answer.lines);
	return 0;
}

static int watch_signals(struct server *s)
{
	static const struct {
		int number;
		sd_event_signal_handler_t handle;
	} signals[] = { { SIGTERM, on_terminate },
			{ SIGINT, on_terminate },
			{ SIGHUP, on_hangup } };
	sigset_t set;
	int rc;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaddset(&set, signals[i].number);
	sigprocmask(SIG_BLOCK, &set, NULL); /* before any thread is started */
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		rc = sd_event_add_signal(s->event, NULL, signals[i].number, signals[i].handle, s);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int serve(const char *path, struct config *config)
{
	static struct server server;
	int rc, code;

	/* A listener's counters and histograms are large and mostly never written: each time fresh
	 * from the kernel, whatever reloads have freed before. */
	mallopt(M_MMAP_THRESHOLD, 64 * 1024);
	rc = sd_event_default(&server.event);
	if (rc < 0) {
		log_error("sd-event: %s", strerror(-rc));
		config_free(config);
		return rc;
	}
	notify_open(&server.notify, server.event);
	rc = watch_signals(&server);
	if (rc == 0)
		rc = server_start(&server, path, config);
	if (rc == 0)
		rc = watchdog_start(&server);
	if (rc == 0) {
		/* Every listener accepts or has said why not. */
		server_notify_ready(&server);
		log_info("nbserved " NB_VERSION ": serving %s", server_words(&server).text);
		code = sd_event_loop(server.event);
		rc = code < 0 ? code : 0;
	}
	if (!server_stop(&server)) {
		log_error("ended with threads that did not");
		_exit(EXIT_FAILURE); /* without what runs at exit(): they may use anything */
	}
	sd_event_unref(server.event);
	if (rc == 0)
		log_info("ended");
	return rc;
}

int main(int argc, char **argv)
{
	const char *path = DEFAULT_CONFIG;
	enum action action = ACTION_SERVE;
	struct config *config;
	int rc = 0;

	log_open(LOG_INFO);
	if (parse_options(argc, argv, &path, &action) < 0)
		return 2;
	if (action == ACTION_DUMP_KEYS) {
		config_dump_keys(stdout);
		return finish_output();
	}
	config = load(path);
	if (!config)
		return EXIT_FAILURE;
	log_set_level(config->server.log_level);
	switch (action) {
	case ACTION_SERVE:
		return serve(path, config) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
	case ACTION_CHECK:
		rc = check(path, config);
		break;
	case ACTION_DUMP:
		config_dump(config, stdout);
		break;
	case ACTION_DUMP_JSON:
		rc = dump_json(config);
		break;
	case ACTION_DOCTOR:
		rc = doctor_print(config, stdout);
		break;
	case ACTION_DUMP_KEYS:
		break;
	}
	config_free(config);
	return rc < 0 ? (finish_output(), EXIT_FAILURE) : finish_output();
}
