/* nbserved: start, the service manager, the event loop of the main thread. */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-event.h>
#include <unistd.h>

#include "config.h"
#include "control.h"
#include "doctor.h"
#include "event_first.h"
#include "log.h"
#include "options.h"
#include "run.h"
#include "server.h"
#include "util.h"
#include "watchdog.h"

/* The exit status when a start fails for a reason that may pass, with a valid configuration. */
enum { EXIT_LATER = 3 };

/* Prints and frees errors. */
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

/* Prints json, and takes ownership of it. */
static int print_json(json_t *json)
{
	int rc = !json || json_dumpf(json, stdout, JSON_INDENT(2)) < 0 ? -ENOMEM : 0;

	putchar('\n');
	json_decref(json);
	return rc;
}

/* 0, or -ENODEV if a listener or an export that is needed is unavailable. */
static int examine(const struct config *config, bool json)
{
	json_t *report = doctor_check(config, NULL);
	bool passed = doctor_passed(report);
	int rc = 0;

	if (json)
		rc = print_json(json_incref(report));
	else
		doctor_print(report, stdout);
	json_decref(report);
	return rc == 0 && !passed ? -ENODEV : rc;
}

/* --check: prints that the configuration is valid and which listeners will be unavailable, or
 * errors of the exports' files.  0 or -EINVAL. */
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

struct daemon {
	struct server server;
	struct control control;
	struct run_mode *run; /* NULL: without --run */
	unsigned terminated;  /* SIGTERM and SIGINT received so far */
};

static int on_terminate(sd_event_source *source, const struct signalfd_siginfo *info, void *context)
{
	struct daemon *d = context;
	struct server *s = &d->server;

	(void)source;
	d->terminated++;
	if (d->terminated > 1) {
		log_warning("received a second SIG%s, ending at once",
			    sigabbrev_np((int)info->ssi_signo));
		return sd_event_exit(s->event, 0);
	}
	log_info("received SIG%s, draining", sigabbrev_np((int)info->ssi_signo));
	notify(&s->notify, "STOPPING=1\nSTATUS=Draining");
	server_drain(s);
	return 0;
}

static int on_sighup(sd_event_source *source, const struct signalfd_siginfo *info, void *context)
{
	struct daemon *d = context;
	struct reload_answer answer;

	/* Without a file SIGHUP means that the terminal has gone. */
	if (d->run)
		return on_terminate(source, info, context);
	log_info("received SIGHUP, reloading");
	reload_run(&d->server, false, &answer);
	json_decref(answer.lines);
	return 0;
}

static bool is_ignored(int number)
{
	struct sigaction action;

	return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static int watch_signals(struct daemon *d)
{
	static const struct {
		int number;
		sd_event_signal_handler_t handle;
	} signals[] = { { SIGTERM, on_terminate },
			{ SIGINT, on_terminate },
			{ SIGHUP, on_sighup } };
	sd_event_source *source;
	sigset_t set;
	int rc;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaddset(&set, signals[i].number);
	sigprocmask(SIG_BLOCK, &set, NULL); /* before threads are started, which inherit it */
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		/* A signalfd receives ignored signals as well, but nohup(1) is to be obeyed. */
		if (d->run && signals[i].number == SIGHUP && is_ignored(SIGHUP))
			continue;
		rc = sd_event_add_signal(d->server.event, &source, signals[i].number,
					 signals[i].handle, d);
		if (rc >= 0)
			rc = event_keep_first(source);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Callback of watchdog_start(). */
static bool are_alive(void *context)
{
	struct server *s = context;

	return listeners_are_alive(&s->listeners);
}

/* Runs the event loop until it ends. */
static int serve_until_end(struct daemon *d)
{
	struct server *s = &d->server;
	struct reason reason = { "" };
	int rc = control_start(&d->control, s, &reason);

	if (rc < 0) {
		log_error("%s", reason.text);
		return rc;
	}
	server_serve(s);
	rc = watchdog_start(s->event, &s->notify, are_alive, s);
	if (rc < 0)
		return rc;
	if (d->run)
		rc = run_start(s);
	if (rc < 0)
		return rc;
	/* Every listener accepts, or its reason was logged. */
	server_notify_ready(s);
	log_info("nbserved " NB_VERSION ": serving %s", server_words(s).text);
	return sd_event_loop(s->event);
}

/* run: NULL without --run.  Returns an exit status. */
static int serve(struct config *config, struct run_mode *run)
{
	static struct daemon daemon;
	struct server *s = &daemon.server;
	int rc, status;

	/* Listeners' counters and histograms are large and mostly unused, so they are always mapped
	 * afresh rather than taken from memory that earlier reloads have freed. */
	mallopt(M_MMAP_THRESHOLD, 64 * 1024);
	daemon.run = run;
	rc = sd_event_default(&s->event);
	if (rc < 0) {
		log_error("sd-event: %s", strerror(-rc));
		config_free(config);
		return EXIT_FAILURE;
	}
	notify_open(&s->notify, s->event);
	rc = watch_signals(&daemon);
	if (rc == 0)
		rc = server_start(s, config);
	if (rc == 0)
		rc = serve_until_end(&daemon);
	control_stop(&daemon.control);
	if (!server_stop(s)) {
		log_error(
			"exiting although the threads named above still run: the kernel ends them");
		/* Without exit handlers: workers that hang may still use any memory. */
		_exit(EXIT_FAILURE);
	}
	status = rc >= 0                              ? EXIT_SUCCESS
		 : !run && server_may_start_later(rc) ? EXIT_LATER
						      : EXIT_FAILURE;
	if (!control_end(&daemon.control)) {
		log_warning("exiting while a call of Doctor still hangs");
		if (run)
			run_end(run);
		fflush(stdout);
		_exit(status); /* without exit handlers: it may still use any memory */
	}
	sd_event_unref(s->event);
	if (rc >= 0)
		log_info("ended");
	return status;
}

static int serve_run(struct run_mode *run)
{
	struct config *config = run_config(run);
	int status = EXIT_FAILURE;

	if (config) {
		log_set_level(config->server.log_level);
		status = serve(config, run);
		run_end(run);
	}
	return status;
}

/* Loads the installed file.  Without one the doctor uses the defaults of --run. */
static struct config *load_default(enum action action, struct run_mode *run)
{
	static char every_engine[] = "echo,engine=all";
	struct config *config;

	if (access(DEFAULT_CONFIG, F_OK) == 0)
		return load(DEFAULT_CONFIG);
	if (action == ACTION_DOCTOR) {
		run->specs[run->count++] = every_engine;
		config = run_config(run);
		run_end(run);
		return config;
	}
	log_error("no file is named with -c, and this machine has no " DEFAULT_CONFIG
		  "; `nbserved --run echo` needs none");
	return NULL;
}

int main(int argc, char **argv)
{
	static struct options o;
	const char *path;
	struct config *config;
	int rc = 0;

	log_open(LOG_INFO);
	if (options_parse(&o, argc, argv) < 0)
		return 2;
	o.run.argv = argv;
	if (o.run.count)
		return serve_run(&o.run);
	if (o.action == ACTION_DUMP_KEYS) {
		config_dump_keys(stdout);
		return options_finish_output();
	}
	config = o.config ? load(o.config) : load_default(o.action, &o.run);
	path = o.config ? o.config : DEFAULT_CONFIG;
	if (!config)
		return EXIT_FAILURE;
	log_set_level(config->server.log_level);
	switch (o.action) {
	case ACTION_SERVE:
		return serve(config, NULL);
	case ACTION_CHECK:
		rc = check(path, config);
		break;
	case ACTION_DUMP:
		if (o.json)
			rc = print_json(config_to_json(config));
		else
			config_dump(config, stdout);
		break;
	case ACTION_DOCTOR:
		rc = examine(config, o.json);
		break;
	case ACTION_DUMP_KEYS:
		break;
	}
	config_free(config);
	return rc < 0 ? (options_finish_output(), EXIT_FAILURE) : options_finish_output();
}
