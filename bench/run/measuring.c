/* See measuring.h. */
#include "measuring.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "conditions.h"
#include "cores.h"
#include "field.h"
#include "generator.h"
#include "generator_host.h"
#include "host.h"
#include "leftovers.h"
#include "measure_visits.h"
#include "must.h"
#include "points.h"
#include "printable.h"
#include "rounds.h"
#include "sampler.h"
#include "serve.h"
#include "targets.h"
#include "text.h"
#include "util.h"

enum { TIMED_OUT = INT_MIN }; /* in place of the status of a COMMAND that ran too long */

/* ---- One visit ---- */

/* Sets the row's generator from the output and times of a run. */
static void set_row_generator(struct measure *row, char *const *argv,
			      const struct generator_run *run)
{
	struct measure_generator *g = &row->generator;
	const char *name = generator_name(argv);
	struct generator_sum sum;

	*g = (struct measure_generator){ .name = name ? name : "",
					 .wall_ns = run->child.wall_ns,
					 .lived_ns = run->child.wall_ns };
	if (run->parts) {
		sum = generator_sum(run->parts, run->part_count);
		g->result = sum.result;
		g->overlap = sum.overlap;
		g->spread_ns = run->spread_ns;
		if (!json_object_get(row->source, "generator_hosts")) /* which owns it */
			json_object_set_new(row->source, "generator_hosts",
					    generator_parts_to_json(run->parts, run->part_count));
		g->hosts = json_object_get(row->source, "generator_hosts");
	} else if (run->child.output) {
		generator_parse(argv, run->child.output, &g->result);
	}
}

struct visit {
	struct ctl *ctl;
	const struct compare *c;
	struct conditions *conditions;
	struct rounds *rounds;
	struct measures *measures;
	unsigned round, position; /* from 0 on */
	unsigned unit;            /* a point with one of the builds */
	unsigned point;           /* which of the points of a sweep */
	unsigned rows;            /* of this round */
	json_t *names;            /* of rows, in the order in which they are shown */
	json_t *absent;           /* see struct targets */
	json_t *failed;           /* by names of rows: number of visits in which COMMAND failed */
	json_t *failing;          /* likewise, since the last visit in which it did not */
	bool foretold;            /* see foretell() */
};

/* Numbers of random orders: rounds_order() makes one for each round from the same seed, so each
 * kind of order has a range of its own. */
enum {
	POINT_SHUFFLE = 1 << 10, /* more than the rounds */
	UNITS_SHUFFLE = 1 << 20, /* more than those of all points */
};
static_assert((int)POINT_SHUFFLE > ROUNDS_MAX && POINTS_MAX * POINT_SHUFFLE < UNITS_SHUFFLE,
	      "no two orders are the same by their numbers");

static unsigned count_builds(const struct visit *v)
{
	return v->c->serve ? v->c->serve->build_count : 1;
}

static const struct point *point_of(const struct visit *v)
{
	return &v->c->points.list[v->point];
}

static void progress(const struct visit *v, const struct target *t)
{
	char name[128];

	if (!isatty(STDERR_FILENO) || !v->c->visits)
		return;
	snprintf(name, sizeof(name), "%s%s%s", t->listener, *point_of(v)->label ? " " : "",
		 point_of(v)->label);
	printable_clean(name);
	fprintf(stderr, "\r\033[Kround %u: %s ...", v->round + 1, name);
}

static void progress_end(void)
{
	if (isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
}

static void set_shared_cpus(const struct visit *v, struct measure *row, const cpu_set_t *child)
{
	cpu_set_t cpus, both, siblings;

	if (v->ctl->target.host || v->ctl->on)
		return; /* known only if the daemon and the generator run on this host */
	host_thread_cpus(field_get(row->source, "threads"), &cpus);
	CPU_AND(&both, &cpus, child);
	cores_siblings(&cpus, child, &siblings);
	row->generator.shared_cpus = (uint64_t)CPU_COUNT(&both);
	if (!row->generator.shared_cpus)
		row->generator.sibling_cpus = (uint64_t)CPU_COUNT(&siblings);
}

/* ---- Visits in which COMMAND failed ---- */

enum { FAILING_MAX = 3 }; /* visits of a listener in a row that may fail */

/* The key under which failed visits are counted: a point of the sweep (its label) and a row.  The
 * caller frees it. */
static char *failed_key(const char *label, const char *row)
{
	return text_new("%s\t%s", label, row);
}

static unsigned counted(const json_t *counts, const char *key)
{
	return (unsigned)json_integer_value(json_object_get(counts, key));
}

/* Notes whether COMMAND failed in a visit.  May the run go on?  If it fails in the first round, it
 * is wrong itself, or the listener is; or if the listener has none but such visits.  One that ran
 * too long would do so again. */
static bool goes_on_after(struct visit *v, const struct targets *t, const char *listener,
			  int status)
{
	unsigned failing, failed = status != 0;
	json_t *row;
	char *key;

	if (!v->c->visits)
		return !failed;
	row = targets_row(t, listener);
	key = failed_key(point_of(v)->label, json_string_value(row));
	failing = failed ? counted(v->failing, key) + 1 : 0;
	json_object_set_new(v->failing, key, json_integer(failing));
	json_object_set_new(v->failed, key, json_integer(counted(v->failed, key) + failed));
	free(key);
	json_decref(row);
	return !failed || (status != TIMED_OUT && v->round > 0 && failing <= FAILING_MAX);
}

/* At the end of the run, as visits after the last good one may have failed, too. */
static void set_failed(const struct visit *v)
{
	for (unsigned i = 0; i < v->measures->count; i++) {
		struct measure *row = v->measures->rows[i];
		char *key = failed_key(row->label, row->listener);

		row->visit.failed = counted(v->failed, key);
		free(key);
	}
}

/* ---- Rows of a visit ---- */

/* Are several listeners busy?  Then the generator's requests cannot be attributed to one. */
static bool are_several(const struct measures *m, unsigned first)
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
	return several;
}

/* Makes the rows of one visit of a listener, or of all listeners that COMMAND loaded. */
static int visit_rows(struct visit *v, const struct targets *t, const struct sampler *s,
		      char *const *argv, const struct generator_run *run)
{
	struct measures *m = v->measures;
	unsigned first = m->count;
	const struct place place = { v->round + 1, v->position + 1,
				     v->c->visits ? v->rounds->seed : 0, v->c->serve };
	int rc = sampler_rows(s, point_of(v)->label, m);
	bool several;

	if (rc != CTL_DONE)
		return rc;
	several = are_several(m, first);
	for (unsigned i = first; i < m->count && !several; i++)
		if (m->rows[i]->listener_count || v->c->visits) {
			set_row_generator(m->rows[i], argv, run);
			set_shared_cpus(v, m->rows[i], &run->child.cpus);
		}
	sampler_set(s, m, first);
	for (unsigned i = first; i < m->count; i++)
		measure_check_requests(m->rows[i]);
	json_decref(v->conditions->spent);
	v->conditions->spent = sampler_energy(s);
	rc = conditions_set(v->conditions, m, first, place, argv, run);
	for (unsigned i = first; t->build && i < m->count; i++)
		measure_set_pair(m->rows[i], targets_row(t, m->rows[i]->listener));
	return rc;
}

/* Visits are quiet.  Else COMMAND's output is shown as it comes. */
static int run_generator(struct visit *v, char **const *commands, struct sampler *sampler,
			 struct generator_run *run)
{
	bool quiet = v->c->visits || v->ctl->values[VALUE_QUIET];
	bool keep = v->c->visits || generator_name(commands[0]);
	struct watcher watcher = sampler_watcher(sampler);
	int rc;

	fflush(v->ctl->out.file);
	rc = generator_host_run(v->ctl, commands, quiet ? CHILD_SHOW_ON_FAILURE : CHILD_SHOW, keep,
				v->c->timeout_ms, &watcher, run);
	return rc == CTL_DONE ? sampler->failed : rc;
}

/* Prints the output of one visit of a COMMAND that is no known generator. */
static void show_output(const struct visit *v, const char *listener, const char *output)
{
	if (v->ctl->values[VALUE_QUIET] || v->ctl->out.json || !output || !*output)
		return;
	progress_end();
	printf("%s: %s", listener, output);
}

/* Of a COMMAND that failed or took too long there are no rows, unless it is not run in visits: then
 * the user sees what it did. */
static int visit(struct visit *v, const struct targets *all, struct target *t,
		 char **const *commands, int *ret_status)
{
	json_t *names = t->listener ? json_pack("[s]", t->listener) : ctl_words(v->ctl);
	struct sampler sampler;
	struct generator_run run;
	const struct child *child = &run.child;
	int rc = sampler_init(&sampler, v->ctl, json_pack("{s:o*}", "listeners", names),
			      v->conditions->interfaces);
	bool counts;

	if (rc != CTL_DONE)
		return rc;
	if (v->round > 0)
		sampler.silence_ns = 0; /* the user was warned in the first round */
	rc = run_generator(v, commands, &sampler, &run);
	v->conditions->by_ssh = t->listener && t->addresses[0].by_ssh ? t->addresses[0].host : NULL;
	*ret_status = rc != CTL_DONE ? 0 : child->timed_out ? TIMED_OUT : child->status;
	if (*ret_status == TIMED_OUT)
		ctl_warn("%s%s%s did not end within %g s (--timeout)",
			 t->listener ? t->listener : "", t->listener ? ": " : "", v->ctl->rest[0],
			 v->c->timeout_ms / 1e3);
	counts = !child->timed_out && (child->status == 0 || !v->c->visits);
	if (rc == CTL_DONE && !child->timed_out && child->status >= 0 &&
	    (counts || !child_interrupted()))
		rc = sampler_end(&sampler, &child->use);
	if (rc == CTL_DONE && child->status >= 0 && counts) {
		rc = visit_rows(v, all, &sampler, commands[0], &run);
		if (v->c->visits && !generator_name(commands[0]))
			show_output(v, t->listener, child->output);
	}
	progress_end();
	generator_run_free(&run);
	sampler_free(&sampler);
	return rc;
}

/* The comparisons of a round with so many rows: its listeners, less the baselines. */
static unsigned count_comparisons(const struct visit *v, unsigned rows)
{
	unsigned builds = count_builds(v), points = v->c->points.count;

	return rows - (builds > 1 ? rows / builds : MIN(rows, points));
}

/* Says after the first visit how long the run will take. */
static void foretell(struct visit *v, const struct targets *t, uint64_t visit_ns)
{
	unsigned rows = t->count * count_builds(v) * v->c->points.count;

	if (!v->foretold)
		rounds_foretell(v->rounds, count_comparisons(v, rows), rows, visit_ns);
	v->foretold = true;
}

static int one_round(struct visit *v, struct targets *t, int *ret_status)
{
	unsigned *order = must(calloc(t->count, sizeof(*order)));
	uint64_t begin_ns;
	int rc = CTL_DONE;

	rounds_order(v->rounds, v->round + v->point * POINT_SHUFFLE, t->count, order);
	for (v->position = 0; v->position < t->count && !child_interrupted(); v->position++) {
		struct target *target = &t->list[order[v->position]];
		char ***commands;

		commands = generator_command_fill(v->ctl, point_of(v)->command,
						  target->listener ? target : NULL);
		if (!commands) {
			rc = CTL_USAGE;
			break;
		}
		begin_ns = clock_ns();
		progress(v, target);
		rc = visit(v, t, target, commands, ret_status);
		foretell(v, t, clock_ns() - begin_ns);
		generator_command_free(commands);
		if (rc == CTL_DONE && !child_interrupted() &&
		    goes_on_after(v, t, target->listener, *ret_status))
			*ret_status = 0;
		if (rc != CTL_DONE || *ret_status != 0)
			break;
	}
	free(order);
	return rc;
}

/* ---- Rounds ---- */

/* Brings the rows of a round, which are in the random order of its visits, into the order in which
 * the user named the listeners; those of listeners that were not visited come last. */
static void sort_rows(const struct visit *v)
{
	json_t *names, *listener;
	size_t i;

	if (!v->c->visits)
		return;
	names = json_copy(v->names);
	json_array_foreach(v->absent, i, listener)
		json_array_append(names, field_get(listener, "name"));
	measures_select(v->measures, names);
	json_decref(names);
}

/* Notes in the first round which rows there will be. */
static void add_names(struct visit *v, const struct targets *t)
{
	for (unsigned i = 0; v->round == 0 && v->c->visits && i < t->count; i++)
		field_add_once(v->names, targets_row(t, t->list[i].listener));
	v->rows += t->count;
}

/* Finds what is visited.  Without visits that is one target, of no name: all listeners. */
static int find_targets(const struct visit *v, struct targets *t)
{
	if (v->c->visits)
		return targets_find(t, v->ctl, v->c->serve);
	t->list = must(calloc(1, sizeof(*t->list)));
	t->count = 1;
	return CTL_DONE;
}

/* One round of visits to a new daemon of one build, which is started before and ended after it. */
static int serve_round(struct visit *v, unsigned build, int *ret_status)
{
	struct serve *serve = v->c->serve;
	struct targets t = { .build = serve->builds[build].name, .absent = v->absent };
	int rc = serve_start(serve, build);

	if (rc == CTL_DONE)
		rc = conditions_ask(v->conditions, v->ctl);
	if (rc == CTL_DONE)
		rc = find_targets(v, &t);
	if (rc == CTL_DONE) {
		add_names(v, &t);
		rc = one_round(v, &t, ret_status);
	}
	targets_free(&t);
	serve_stop(serve);
	return rc;
}

static int unit_round(struct visit *v, struct targets *t, int *ret_status)
{
	struct serve *serve = v->c->serve;

	v->point = v->unit / count_builds(v);
	v->conditions->command = point_of(v)->command;
	v->conditions->sweep = point_of(v)->sweep;
	if (serve) {
		serve->point = point_of(v);
		return serve_round(v, v->unit % count_builds(v), ret_status);
	}
	add_names(v, t);
	return one_round(v, t, ret_status);
}

/* A round of each point of a sweep, with a new daemon of each build.  They take turns, so that a
 * change of the machine over time is in all of them and does not look like an effect of one. */
static int units_round(struct visit *v, struct targets *t, int *ret_status)
{
	unsigned count = v->c->points.count * count_builds(v);
	unsigned *order = must(calloc(count, sizeof(*order)));
	int rc = CTL_DONE;

	rounds_order(v->rounds, v->round + UNITS_SHUFFLE, count, order);
	v->rows = 0;
	/* The first round has the user's order, in which the rows are shown. */
	for (unsigned i = 0;
	     i < count && rc == CTL_DONE && *ret_status == 0 && !child_interrupted(); i++) {
		v->unit = v->round ? order[i] : i;
		rc = unit_round(v, t, ret_status);
	}
	if (v->round == 0)
		v->rounds->comparisons = count_comparisons(v, v->rows);
	free(order);
	return rc;
}

static int run_rounds(struct visit *v, struct targets *t, int *ret_status)
{
	int rc;

	rounds_begin(v->rounds);
	do {
		rc = units_round(v, t, ret_status);
		sort_rows(v);
		v->round++;
	} while (rc == CTL_DONE && *ret_status == 0 && !child_interrupted() &&
		 !rounds_enough(v->rounds, v->measures));
	progress_end();
	return rc;
}

static void add_absent(const struct visit *v)
{
	json_t *document = json_pack("{s:O}", "listeners", v->absent);

	measures_delta(v->measures, NULL, document, 0, point_of(v)->label);
	json_decref(document);
}

/* With placeholders like `{port}` in the command: runs the points' commands against one listener
 * after the other (those that ctl->words names; none: all that serve), in several rounds whose
 * order changes, so that other load of the host affects all listeners alike.  Without: runs the
 * command as it is, --repeat times, and watches all listeners.  Appends a row per operation and
 * visit to m.  Prints its progress on stderr if that is a terminal.  Returns an exit code;
 * *ret_status: the first nonzero status of the command.  After a failure or Ctrl-C, m has the rows
 * measured before. */
static int run_visits(struct ctl *ctl, struct compare *c, struct conditions *conditions,
		      struct measures *m, int *ret_status)
{
	struct visit v = {
		.ctl = ctl,
		.c = c,
		.conditions = conditions,
		.rounds = &c->rounds,
		.measures = m,
		.names = json_array(),
		.absent = json_array(),
		.failed = json_object(),
		.failing = json_object(),
	};
	struct targets t = { .absent = v.absent };
	int rc = CTL_DONE;

	if (!c->serve)
		rc = conditions_ask(conditions, ctl);
	if (rc == CTL_DONE)
		rc = conditions_rest(conditions);
	if (rc == CTL_DONE && c->serve)
		rc = serve_try(c->serve);
	else if (rc == CTL_DONE)
		rc = find_targets(&v, &t);
	if (rc == CTL_DONE) {
		rc = run_rounds(&v, &t, ret_status);
		set_failed(&v);
		add_absent(&v);
		sort_rows(&v);
	}
	targets_free(&t);
	json_decref(v.names);
	json_decref(v.absent);
	json_decref(v.failed);
	json_decref(v.failing);
	return rc;
}

/* ---- The command to be measured ---- */

/* Prints how the command ended; returns the exit code. */
static int command_result(const char *name, int status)
{
	if (status == TIMED_OUT)
		return CTL_TIMED_OUT;
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

int measuring_run(struct ctl *ctl, struct compare *c, struct measures *m)
{
	struct conditions conditions;
	struct serve serve;
	char *hosts = NULL;
	int rc = CTL_DONE, status = 0;

	/* Connecting again takes time, perhaps a password, and may reach another daemon. */
	ctl->steady = ctl->target.host;
	leftovers_guard(ctl->argv);
	child_catch_signals();
	if (ctl->values[VALUE_ON]) {
		hosts = must(strdup(ctl->values[VALUE_ON]));
		rc = generator_host_open(ctl, hosts);
	}
	conditions_begin(&conditions, ctl);
	if (ctl->specs && rc == CTL_DONE) {
		c->serve = &serve;
		rc = serve_init(&serve, ctl, ctl->lists[VALUE_BUILD]);
		serve.points = &c->points;
	}
	if (rc == CTL_DONE)
		rc = run_visits(ctl, c, &conditions, m, &status);
	c->status = measuring_result(ctl, status);
	child_release_signals();
	conditions_fini(&conditions);
	generator_host_close(ctl);
	free(hosts);
	if (c->serve)
		serve_fini(&serve);
	c->serve = NULL;
	return rc;
}
