/* See visits.h. */
#include "visits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "conditions.h"
#include "field.h"
#include "host.h"
#include "placeholders.h"
#include "printable.h"
#include "rounds.h"
#include "sampler.h"
#include "timeline.h"
#include "util.h"

/* ---- Listeners to visit ---- */

struct target {
	const char *listener, *service; /* borrowed from the status document */
	char *host, *port, *uri;        /* "": it has none */
	bool timed_out;                 /* it is not visited again */
};

static char *must(char *text)
{
	if (!text)
		abort();
	return text;
}

static char *format(const char *format, ...) __attribute__((format(printf, 1, 2)));
static char *format(const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		abort();
	va_end(arguments);
	return text;
}

/* How generators name a service in a URI; "tcp" for those that have no name. */
static const char *scheme_of(const char *service)
{
	return !strcmp(service, "nbd") || !strcmp(service, "http") ? service : "tcp";
}

/* `127.0.0.1:7008`, `[::1]:7008`, `unix:/path`; a wildcard is reached on this host. */
static void target_set_address(struct target *t, const char *address)
{
	const char *colon = strrchr(address, ':'), *scheme = scheme_of(t->service);
	int bytes = (int)(colon ? colon - address : 0);

	if (!strncmp(address, "unix:", 5)) {
		t->host = must(strdup(address + 5));
		t->port = must(strdup(""));
		t->uri = format("%s+unix:///?socket=%s", scheme, t->host);
		return;
	}
	t->host = format("%.*s", bytes, address);
	t->port = must(strdup(colon ? colon + 1 : ""));
	if (!strcmp(t->host, "0.0.0.0") || !strcmp(t->host, "[::]")) {
		bool is_ipv4 = t->host[0] == '0';

		free(t->host);
		t->host = must(strdup(is_ipv4 ? "127.0.0.1" : "[::1]"));
	}
	t->uri = format("%s://%s:%s/", scheme, t->host, t->port);
	if (t->host[0] == '[') { /* only a URI needs the brackets */
		t->host[strlen(t->host) - 1] = '\0';
		memmove(t->host, t->host + 1, strlen(t->host));
	}
}

struct targets {
	json_t *status;
	struct target *list;
	unsigned count;
	json_t *absent; /* listeners of status that cannot be visited, with the reason why */
};

static void targets_free(struct targets *t)
{
	for (unsigned i = 0; i < t->count; i++) {
		free(t->list[i].host);
		free(t->list[i].port);
		free(t->list[i].uri);
	}
	free(t->list);
	json_decref(t->absent);
	json_decref(t->status);
}

static void targets_add(struct targets *t, const json_t *listener)
{
	struct target *new;

	t->list = reallocarray(t->list, t->count + 1, sizeof(*t->list));
	if (!t->list)
		abort();
	new = &t->list[t->count++];
	*new = (struct target){ .listener = field_text(listener, "name"),
				.service = field_text(listener, "service") };
	target_set_address(new,
			   field_text(json_array_get(field_get(listener, "addresses"), 0), ""));
}

static bool is_serving(const json_t *listener)
{
	return !strcmp(field_text(listener, "state"), "serving");
}

/* The table names it with the reason, which is the daemon's if that has one. */
static void targets_leave(struct targets *t, const json_t *listener, const char *reason)
{
	json_t *copy = json_copy((json_t *)listener);

	if (!*field_text(copy, "reason"))
		json_object_set_new(copy, "reason", json_string(reason));
	json_object_set_new(copy, "state", json_string("unavailable"));
	if (!t->absent)
		t->absent = json_array();
	json_array_append_new(t->absent, copy);
}

static int nothing_to_visit(const struct targets *t)
{
	json_t *listener;
	size_t i;

	ctl_warn("no listener serves: nothing to visit");
	json_array_foreach(t->absent, i, listener) {
		char *text = format("%s: %s", field_text(listener, "name"),
				    field_text(listener, "reason"));

		printable_clean(text);
		ctl_warn("%s", text);
		free(text);
	}
	return CTL_REFUSED;
}

static int targets_name(struct ctl *ctl, struct targets *t)
{
	for (unsigned i = 0; i < ctl->word_count; i++) {
		const json_t *listener = field_named(t->status, "listeners", ctl->words[i]);

		if (!listener) {
			ctl_warn("there is no listener '%s'", ctl->words[i]);
			return CTL_REFUSED;
		}
		if (is_serving(listener))
			targets_add(t, listener);
		else
			targets_leave(t, listener, field_text(listener, "state"));
	}
	return t->count ? CTL_DONE : nothing_to_visit(t);
}

static bool is_visited(const json_t *listener)
{
	return is_serving(listener) && !strcmp(field_text(listener, "transport"), "tcp");
}

/* Selects all listeners that serve, if one command suits them all. */
static int targets_all(struct targets *t)
{
	json_t *listener;
	size_t i;

	json_array_foreach(field_get(t->status, "listeners"), i, listener)
		if (is_visited(listener))
			targets_add(t, listener);
	for (unsigned j = 1; j < t->count; j++)
		if (strcmp(t->list[j].service, t->list[0].service) != 0) {
			ctl_warn(
				"which listeners?  They serve different things (%s: %s, %s: %s): name "
				"those that COMMAND is to visit",
				t->list[0].listener, t->list[0].service, t->list[j].listener,
				t->list[j].service);
			return CTL_USAGE;
		}
	json_array_foreach(field_get(t->status, "listeners"), i, listener)
		if (!is_visited(listener) &&
		    (t->count == 0 || !strcmp(field_text(listener, "service"), t->list[0].service)))
			targets_leave(t, listener,
				      is_serving(listener)
					      ? "not over TCP: it is visited when it is named"
					      : field_text(listener, "state"));
	return t->count ? CTL_DONE : nothing_to_visit(t);
}

/* ---- The command ---- */

static void free_words(char **words)
{
	for (char **word = words; *word; word++)
		free(*word);
	free(words);
}

/* The command with its placeholders replaced; NULL, with an error printed: the listener lacks one.
 */
static char **fill_words(char *const *argv, const struct target *t)
{
	const char *const values[PLACEHOLDER_COUNT] = { [PLACEHOLDER_HOST] = t->host,
							[PLACEHOLDER_PORT] = t->port,
							[PLACEHOLDER_URI] = t->uri,
							[PLACEHOLDER_LISTENER] = t->listener };
	const char *missing = NULL;
	unsigned count = 0;
	char **words;

	while (argv[count])
		count++;
	words = calloc(count + 1, sizeof(*words));
	if (!words)
		abort();
	for (unsigned i = 0; i < count; i++)
		words[i] = placeholders_fill(argv[i], values, &missing);
	if (!missing)
		return words;
	ctl_warn("listener '%s' has no %s: its address is a Unix socket", t->listener, missing);
	free_words(words);
	return NULL;
}

/* ---- One visit ---- */

void visits_set_generator(struct measure *row, char *const *argv, const struct child *child)
{
	struct measure_generator *g = &row->generator;
	const char *name = generator_name(argv);

	*g = (struct measure_generator){ .name = name ? name : "", .wall_ns = child->wall_ns };
	if (child->output)
		generator_parse(argv, child->output, child->wall_ns, &g->result);
}

struct visit {
	struct ctl *ctl;
	const struct visits_options *options;
	struct rounds *rounds;
	struct measures *measures;
	unsigned round, position; /* from 0 on */
};

static void progress(const struct visit *v, const struct target *t)
{
	char name[64];

	if (!isatty(STDERR_FILENO))
		return;
	snprintf(name, sizeof(name), "%s", t->listener);
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

	host_listener_cpus(v->options->conditions->pid, row->listener, &cpus);
	CPU_AND(&both, &cpus, child);
	host_siblings(&cpus, child, &siblings);
	row->generator.shared_cpus = (uint64_t)CPU_COUNT(&both);
	if (!row->generator.shared_cpus)
		row->generator.sibling_cpus = (uint64_t)CPU_COUNT(&siblings);
}

/* The rows of one listener. */
static int visit_rows(struct visit *v, const struct sampler *s, char *const *argv,
		      const struct child *child)
{
	struct measures *m = v->measures;
	unsigned first = m->count;
	uint64_t interval_ns;

	if (measures_interval(sampler_first(s), sampler_last(s), &interval_ns) < 0) {
		ctl_warn("the daemon was restarted during the run: nothing to compare");
		return CTL_REFUSED;
	}
	measures_delta(m, sampler_first(s), sampler_last(s), interval_ns,
		       v->options->label ? v->options->label : "");
	timeline_set(m, first, s->documents);
	for (unsigned i = first; i < m->count; i++) {
		visits_set_generator(m->rows[i], argv, child);
		set_shared_cpus(v, m->rows[i], &child->cpus);
	}
	sampler_set(s, m, first);
	conditions_set(v->options->conditions, m, first,
		       (struct place){ v->round + 1, v->position + 1 }, argv, child);
	return CTL_DONE;
}

static int visit(struct visit *v, struct target *t, char **argv, int *ret_status)
{
	struct sampler sampler;
	struct child child;
	int rc;

	rc = sampler_init(&sampler, v->ctl, json_pack("{s:[s]}", "listeners", t->listener),
			  v->options->softirq, true);
	if (rc != CTL_DONE)
		return rc;
	if (v->round > 0)
		sampler.silence_ns = 0; /* it was told in the first */
	child_run(argv, CHILD_SHOW_ON_FAILURE, true, v->options->timeout_ms, &sampler, &child);
	t->timed_out = child.timed_out;
	*ret_status = child.timed_out ? 0 : child.status;
	if (child.status == 0 && !child.timed_out) {
		rc = sampler_end(&sampler, &child.use);
		if (rc == CTL_DONE)
			rc = visit_rows(v, &sampler, argv, &child);
		if (!generator_name(argv) && child.output[0] && !v->options->quiet &&
		    !v->ctl->out.json) {
			progress_end();
			printf("%s: ", t->listener);
			fputs(child.output, stdout);
		}
	}
	child_free(&child);
	sampler_free(&sampler);
	return rc;
}

static int one_round(struct visit *v, struct targets *t, char *const *argv, int *ret_status)
{
	unsigned *order = calloc(t->count, sizeof(*order));
	int rc = CTL_DONE;

	if (!order)
		abort();
	rounds_order(v->rounds, v->round, t->count, order);
	for (v->position = 0; v->position < t->count && !child_interrupted(); v->position++) {
		struct target *target = &t->list[order[v->position]];
		char **words;

		if (target->timed_out)
			continue;
		words = fill_words(argv, target);
		rc = words ? CTL_DONE : CTL_USAGE;
		if (!words)
			break;
		progress(v, target);
		rc = visit(v, target, words, ret_status);
		free_words(words);
		if (rc != CTL_DONE || *ret_status != 0)
			break;
	}
	free(order);
	return rc;
}

/* Rows came in the order of the visits; the listeners' order is the user's, and those that were not
 * visited come last. */
static void sort_rows(struct measures *m, const struct targets *t)
{
	json_t *names = json_array(), *listener;
	size_t index;

	for (unsigned i = 0; i < t->count; i++)
		json_array_append_new(names, json_string(t->list[i].listener));
	json_array_foreach(t->absent, index, listener)
		json_array_append(names, field_get(listener, "name"));
	measures_select(m, names);
	json_decref(names);
}

static int run_rounds(struct visit *v, struct targets *t, char *const *argv, int *ret_status)
{
	int rc;

	v->rounds->comparisons = t->count - 1;
	rounds_begin(v->rounds);
	do {
		rc = one_round(v, t, argv, ret_status);
		sort_rows(v->measures, t);
		v->round++;
	} while (rc == CTL_DONE && *ret_status == 0 && !child_interrupted() &&
		 !rounds_enough(v->rounds, v->measures));
	progress_end();
	return rc;
}

/* Names the listeners whose visit ran out of time.  An exit code. */
static int leave_timed_out(struct targets *t, unsigned timeout_ms)
{
	int rc = CTL_DONE;

	for (unsigned i = 0; i < t->count; i++) {
		const char *name = t->list[i].listener;
		char *reason;

		if (!t->list[i].timed_out)
			continue;
		rc = CTL_TIMED_OUT;
		reason = format("COMMAND did not end within %g s (--timeout)", timeout_ms / 1e3);
		ctl_warn("%s is not compared: %s", name, reason);
		targets_leave(t, field_named(t->status, "listeners", name), reason);
		free(reason);
	}
	return rc;
}

static void add_absent(struct measures *m, const struct targets *t, const char *label)
{
	json_t *document = json_pack("{s:O?}", "listeners", t->absent);

	measures_delta(m, NULL, document, 0, label ? label : "");
	json_decref(document);
}

int visits_run(struct ctl *ctl, const struct visits_options *options, struct rounds *rounds,
	       struct measures *m, int *ret_status)
{
	struct visit v = { .ctl = ctl, .options = options, .rounds = rounds, .measures = m };
	struct targets targets = { 0 };
	int rc = ctl_call(ctl, "GetStatus", NULL, &targets.status);

	if (rc != CTL_DONE)
		return rc;
	rc = ctl->word_count ? targets_name(ctl, &targets) : targets_all(&targets);
	if (rc == CTL_DONE) {
		int late;

		rc = run_rounds(&v, &targets, ctl->rest, ret_status);
		late = leave_timed_out(&targets, options->timeout_ms);
		rc = rc == CTL_DONE ? late : rc;
		add_absent(m, &targets, options->label);
		sort_rows(m, &targets);
	}
	targets_free(&targets);
	return rc;
}
