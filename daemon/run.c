/* --run: a configuration made from the command line, and a control socket of its own.  See run.h.
 */
#include "run.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "config_run.h"
#include "log.h"
#include "registry.h"
#include "runtime.h"
#include "server.h"
#include "util.h"
#include "worker_owner.h"

/* ---- The control socket ---- */

struct config *run_config(struct run_mode *run)
{
	struct config_errors errors = { 0 };
	const struct group *group = getgrgid(getegid());
	char control[PATH_MAX], server[PATH_MAX + 256], *text;
	struct config *config = NULL;
	struct reason reason = { "" };
	int rc;

	rc = runtime_choose_socket(run->argv, control, sizeof(control), run->directory);
	if (rc < 0) {
		log_error("--run: no directory for the control socket: %s: %s", run->directory,
			  strerror(-rc));
		run->directory[0] = '\0';
		return NULL;
	}
	/* `--run` is interactive: success is printed here, not logged. */
	snprintf(server, sizeof(server), "control = %s\nlog-level = warning\ncontrol-group = %s\n",
		 control, group ? group->gr_name : "root");
	if (config_run_text(run->specs, run->count, server, &text, &reason) < 0) {
		log_error("%s", reason.text);
		run_end(run);
		return NULL;
	}
	config_load_text("--run", text, strlen(text), &config, &errors);
	for (unsigned i = 0; i < errors.count && i < CONFIG_ERRORS_MAX; i++) {
		/* The configuration of --run has lines that no user wrote: the text
		 * begins behind their number. */
		const char *behind = strstr(errors.text[i], ": ");

		log_error("--run: %s", behind ? behind + 2 : errors.text[i]);
	}
	config_errors_free(&errors);
	free(text);
	if (!config)
		run_end(run);
	return config;
}

void run_end(struct run_mode *run)
{
	if (run->directory[0])
		rmdir(run->directory); /* fails if it is not empty */
	run->directory[0] = '\0';
}

/* ---- Serving ---- */

static void print_example(const struct listener *l)
{
	char *example = listener_example(l);

	if (example)
		printf("  %s (%s): %s\n", l->name, l->engine->name, example);
	free(example);
}

static void print_where(const struct server *s)
{
	const char *path = getenv("NBSERVED_SOCKET"); /* by which nbctl finds it */
	char found[PATH_MAX];

	if (path && *path)
		snprintf(found, sizeof(found), "%s", path);
	else
		runtime_find_socket(found, sizeof(found));
	puts("Serving.  Try, in another terminal:");
	for (unsigned i = 0; i < s->listeners.count; i++)
		print_example(s->listeners.list[i]);
	for (unsigned i = 0; i < s->listeners.count; i++)
		if (s->listeners.list[i]->state == LISTENER_UNAVAILABLE)
			printf("  %s is unavailable: %s\n", s->listeners.list[i]->name,
			       s->listeners.list[i]->reason.text);
	if (strcmp(found, s->config->server.control) != 0)
		printf("  nbctl -s %s top\n", s->config->server.control);
	else
		puts("  nbctl top");
	puts("Ctrl-C ends it.");
	fflush(stdout);
}

/* `engine=all` continues without the engines that this host lacks.  A listener whose engine the
 * host has failed for another reason, such as a port that another program uses. */
static int check_serving(const struct server *s)
{
	int rc = 0;

	for (unsigned i = 0; i < s->listeners.count; i++) {
		const struct listener *l = s->listeners.list[i];
		struct reason lacks = { "" };
		uint64_t features;

		if (l->state != LISTENER_UNAVAILABLE || !l->config->engine ||
		    worker_probe(registry_variant(l->config->engine, &l->config->options),
				 &l->config->options, &features, &lacks) < 0)
			continue;
		log_error("--run: %s: %s", l->name, l->reason.text);
		rc = -EIO;
	}
	return rc;
}

int run_start(struct server *s)
{
	int rc = check_serving(s);

	if (rc == 0)
		print_where(s);
	return rc;
}
