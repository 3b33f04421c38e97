/* See measuring.h. */
#include "measuring.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>

#include "child.h"
#include "conditions.h"
#include "generator.h"
#include "generator_host.h"
#include "layers.h"
#include "leftovers.h"
#include "sampler.h"
#include "serve.h"
#include "targets.h"
#include "util.h"

/* ---- The command to be measured ---- */

/* Prints how the command ended; returns the exit code. */
static int command_result(const char *name, int status)
{
	if (status < 0) {
		ctl_warn("cannot run %s: %s", name, strerror(-status));
		return status == -ENOENT ? CTL_NOT_FOUND : CTL_CANNOT_RUN;
	}
	if (WIFSIGNALED(status)) {
		ctl_warn("%s was killed by signal %d (%s)", name, WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
		return CTL_SIGNALLED + WTERMSIG(status);
	}
	if (WEXITSTATUS(status))
		ctl_warn("%s failed with exit status %d", name, WEXITSTATUS(status));
	return WEXITSTATUS(status);
}

/* The exit code of a run of all commands.  A signal that nbbench got decides, and not the status of
 * the command that was ended by it: some generators exit with 0 then. */
static int measuring_result(const struct ctl *ctl, int status)
{
	int number = child_interrupted();
	int rc = status ? command_result(ctl->rest[0], status) : CTL_DONE;

	if (number)
		ctl_warn("interrupted");
	return number ? CTL_SIGNALLED + number : rc;
}

/* ---- Measuring ---- */

/* Runs the command once, unchanged, and watches all listeners.  Its output is shown live. */
static int run_command(struct ctl *ctl, char **const *commands, unsigned timeout_ms,
		       struct sampler *sampler, struct generator_run *run)
{
	bool known = generator_name(ctl->rest);
	struct watcher watcher = sampler_watcher(sampler);
	int rc;

	fflush(ctl->out.file);
	rc = generator_host_run(ctl, commands,
				ctl->values[VALUE_QUIET] ? CHILD_SHOW_ON_FAILURE : CHILD_SHOW,
				known, timeout_ms, &watcher, run);
	rc = rc == CTL_DONE ? sampler->failed : rc;
	if (rc != CTL_DONE)
		return rc;
	if (run->child.timed_out)
		ctl_warn("%s did not end within %g s (--timeout)", ctl->rest[0], timeout_ms / 1e3);
	return run->child.timed_out ? CTL_TIMED_OUT : CTL_DONE;
}

/* Sets the generator's result in the row, unless several listeners were busy: then its requests
 * cannot be attributed to one. */
static void set_generator(struct measures *m, unsigned first, char *const *argv,
			  const struct generator_run *run)
{
	const struct measure *active = NULL;
	bool several = false;

	for (unsigned i = first; i < m->count; i++) {
		const struct measure *row = m->rows[i];

		if (row->listener_count == 0)
			continue;
		several |= active && strcmp(active->listener, row->listener) != 0;
		active = row;
	}
	for (unsigned i = first; i < m->count && !several; i++)
		if (m->rows[i]->listener_count)
			visits_set_generator(m->rows[i], argv, run);
}

static int measure(struct ctl *ctl, const struct compare *c, struct conditions *conditions,
		   unsigned round, struct measures *m, int *ret_status)
{
	char ***commands = generator_command_fill(ctl, ctl->rest, NULL);
	char *const *command = commands[0];
	struct generator_run run = { .failed = -1 };
	const struct child *child = &run.child;
	unsigned first = m->count;
	struct sampler sampler;
	int rc;

	/* The daemon checks the names. */
	rc = sampler_init(&sampler, ctl, json_pack("{s:o*}", "listeners", ctl_words(ctl)),
			  conditions->interfaces, c->layers, ctl->rest);
	if (rc != CTL_DONE) {
		generator_command_free(commands);
		return rc;
	}
	rc = run_command(ctl, commands, c->timeout_ms, &sampler, &run);
	*ret_status = rc == CTL_DONE ? child->status : 0;
	if (child->status >= 0 && rc == CTL_DONE) {
		rc = sampler_end(&sampler, &child->use);
		if (rc == CTL_DONE)
			rc = sampler_rows(&sampler, ctl->values[VALUE_LABEL], m);
		if (rc == CTL_DONE)
			rc = conditions_set(conditions, m, first,
					    (struct place){ .round = round, .position = 1 },
					    command, &run);
		set_generator(m, first, command, &run);
		sampler_set(&sampler, m, first);
		layers_end(sampler.layers, m, first);
		for (unsigned i = first; i < m->count; i++)
			measure_check_requests(m->rows[i]);
	}
	generator_run_free(&run);
	generator_command_free(commands);
	sampler_free(&sampler);
	return rc;
}

/* Runs COMMAND --repeat times as it is. */
static int measure_rounds(struct ctl *ctl, struct compare *c, struct conditions *conditions,
			  struct measures *m, int *ret_status)
{
	int rc = c->serve ? serve_start(c->serve, 0) : CTL_DONE;

	if (rc == CTL_DONE)
		rc = conditions_ask(conditions, ctl);
	for (unsigned i = 0;
	     i < c->rounds.repeat && rc == CTL_DONE && *ret_status == 0 && !child_interrupted();
	     i++)
		rc = measure(ctl, c, conditions, i + 1, m, ret_status);
	if (c->serve)
		serve_stop(c->serve);
	return rc;
}

/* Opens what --layers needs, so that a missing privilege is reported before anything runs. */
static int open_layers(struct ctl *ctl, struct compare *c)
{
	struct reason reason;

	if (!ctl->values[VALUE_LAYERS] || layers_open(&c->layers, &reason) == 0)
		return CTL_DONE;
	ctl_warn("--layers: %s", reason.text);
	return CTL_CANNOT_RUN;
}

int measuring_run(struct ctl *ctl, struct compare *c, struct measures *m)
{
	struct conditions conditions;
	struct serve serve;
	int rc = open_layers(ctl, c), status = 0;

	if (rc != CTL_DONE)
		return rc;
	/* Connecting again takes time, perhaps a password, and may reach another daemon. */
	ctl->steady = ctl->target.host;
	leftovers_guard(ctl->argv);
	child_catch_signals();
	if (ctl->values[VALUE_ON])
		rc = generator_host_open(ctl, &c->hosts);
	conditions_begin(&conditions, ctl);
	if (ctl->specs && rc == CTL_DONE) {
		c->serve = &serve;
		rc = serve_init(&serve, ctl, ctl->specs, ctl->values[VALUE_BUILD]);
		serve.sweeps = &c->points.sweeps;
	}
	if (rc == CTL_DONE && !c->visits)
		rc = measure_rounds(ctl, c, &conditions, m, &status);
	else if (rc == CTL_DONE)
		rc = visits_run(ctl, c, &conditions, m, &status);
	c->status = measuring_result(ctl, status);
	child_release_signals();
	conditions_fini(&conditions);
	generator_host_close(ctl);
	layers_close(c->layers);
	c->layers = NULL;
	if (c->serve)
		serve_fini(&serve);
	c->serve = NULL;
	return rc;
}
