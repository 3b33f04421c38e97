/* Rows against the saved ones of the same name: the verdicts by whole runs, and what changed
 * between.  See struct against_saved, and steps.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "measure_visits.h"
#include "must.h"
#include "numbers.h"
#include "steps.h"
#include "util.h"

/* ---- What changed between: host, versions, build, command, keys ---- */

/* In conditions; of a listener: it is named with the fact, as each has its own; of words: those are
 * told that only one side has; of hosts: each is named, { "host": "c1", ... } in an array. */
enum fact_kind { FACT, FACT_OF_LISTENER, FACT_OF_WORDS };
static const struct fact {
	const char *what, *path;
	enum fact_kind kind;
} facts[] = {
	{ "kernel", "host.kernel", FACT },
	{ "machine", "host.machine", FACT },
	{ "CPU", "host.cpu", FACT },
	{ "CPU flags", "host.cpu_flags", FACT_OF_WORDS },
	{ "CPUs", "host.cpus", FACT },
	{ "CPU mitigation", "host.mitigations", FACT },
	{ "frequency governor", "host.governor", FACT },
	{ "turbo", "host.turbo", FACT },
	{ "transparent huge pages", "host.transparent_hugepages", FACT },
	{ "clock source", "host.clocksource", FACT },
	{ "NUMA nodes", "host.numa_nodes", FACT },
	{ "network interface", "nic", FACT },
	{ "generator's kernel", "generator_host.kernel", FACT },
	{ "generator's CPU", "generator_host.cpu", FACT },
	{ "generator's CPU flags", "generator_host.cpu_flags", FACT_OF_WORDS },
	{ "generator's frequency governor", "generator_host.governor", FACT },
	{ "generator's hosts", "on", FACT },
	{ "nbserved", "nbserved", FACT },
	{ "nbbench", "nbbench", FACT },
	{ "generator", "generator", FACT },
	{ "generator's CPUs", "generator_cpus", FACT },
	{ "command", "command_given", FACT },
	{ "command", "command", FACT }, /* its ports may differ from run to run */
	{ "CPUs", "listener_cpus", FACT_OF_LISTENER },
	{ "key", "listener", FACT_OF_LISTENER },
	{ "export", "exports", FACT_OF_LISTENER },
};

/* The object's member, which is made if it is not there. */
static json_t *member(json_t *object, const char *name)
{
	if (!json_object_get(object, name))
		json_object_set_new(object, name, json_object());
	return json_object_get(object, name);
}

static void add_value(json_t *parts, const char *key, const json_t *value, const char *path)
{
	char *text = strncmp(path, "command", 7) ? field_show(value) : field_show_words(value);

	json_object_set_new(member(parts, key), text, json_true());
	free(text);
}

static void add_words(json_t *parts, const char *words)
{
	for (size_t bytes; *words; words += bytes + strspn(words + bytes, " ")) {
		char word[64];

		bytes = strcspn(words, " ");
		snprintf(word, sizeof(word), "%.*s", (int)bytes, words);
		json_object_set_new(parts, word, json_true());
	}
}

/* What was seen of each fact, by the keys of those that are objects, else "":
 * { "CPU mitigation": { "spectre_v2": { "Mitigation: ...": true } }, "build": { "": ... } },
 * and each of its words: { "CPU flags": { "avx2": true, "fsrm": true } } */
static void add_seen(json_t *seen, const struct measure *visit)
{
	bool given = field_get(visit->conditions, "command_given");
	char name[160];

	for (unsigned i = 0; i < ARRAY_SIZE(facts); i++) {
		const struct fact *f = &facts[i];
		json_t *value = field_get(visit->conditions, f->path), *part, *parts;
		const char *key;

		if (!value || (given && !strcmp(f->path, "command")))
			continue;
		snprintf(name, sizeof(name), "%s%s%s",
			 f->kind == FACT_OF_LISTENER ? visit->listener : "",
			 f->kind == FACT_OF_LISTENER ? ": " : "", f->what);
		parts = member(seen, name);
		if (f->kind == FACT_OF_WORDS)
			add_words(parts, field_text(value, ""));
		else if (json_is_object(value))
			json_object_foreach(value, key, part)
				add_value(parts, key, part, f->path);
		else
			add_value(parts, "", value, f->path);
	}
	if (*visit->visit.build)
		json_object_set_new(member(member(seen, "build"), ""), visit->visit.build,
				    json_true());
}

static void add_row(json_t *seen, const struct measure *row)
{
	for (unsigned i = 0; i < measure_visits(row); i++)
		add_seen(seen, measure_visit_at(row, i));
}

/* Takes the texts; "": "-". */
static void add_change(json_t *changes, json_t *what, char *then, char *now)
{
	json_array_append_new(changes, json_pack("{s:o, s:s, s:s}", "what", what, "then",
						 *then ? then : "-", "now", *now ? now : "-"));
	free(then);
	free(now);
}

/* By its key: "a or b", "-" where it was not set. */
static void add_key(json_t *changes, const char *what, const char *key, const json_t *then,
		    const json_t *now)
{
	json_t *past = json_object_get(then, key), *present = json_object_get(now, key);

	if (!json_equal(past, present))
		add_change(changes, json_sprintf("%s%s%s", what, *key ? " " : "", key),
			   field_show_names(past, NULL, " or "),
			   field_show_names(present, NULL, " or "));
}

static json_t *differences(json_t *then, json_t *now)
{
	json_t *changes = json_array(), *parts, *value;
	const char *what, *key;

	json_object_foreach(now, what, parts) {
		json_t *past = json_object_get(then, what);

		if (!past || json_equal(past, parts))
			continue; /* not saved then, or the same */
		/* Words: those that only one side has, "avx2 fsrm". */
		if (json_is_true(json_object_iter_value(json_object_iter(parts)))) {
			add_change(changes, json_string(what), field_show_names(past, parts, " "),
				   field_show_names(parts, past, " "));
			continue;
		}
		json_object_foreach(parts, key, value)
			add_key(changes, what, key, past, parts);
		json_object_foreach(past, key, value)
			if (!json_object_get(parts, key))
				add_key(changes, what, key, past, parts);
	}
	return changes;
}

/* A new array, see struct result. */
static json_t *changes_of(const struct result *r)
{
	json_t *then = json_object(), *now = json_object(), *changes;

	for (struct result_at at = { 0 }; result_next(r, &at);)
		if (at.row->saved) {
			add_row(then, at.row->saved->row);
			add_row(now, at.row->row);
		}
	changes = differences(then, now);
	json_decref(then);
	json_decref(now);
	return changes;
}

/* ---- Runs ---- */

/* A value of each run: the medians of its visits. */
struct runs {
	double *costs, *generators; /* both NULL: there are none; a generator's NaN: unknown */
	unsigned count;
};

/* The row's first visit of that run; NULL: it has none. */
static const struct measure *first_of(const struct measure *row, const char *run)
{
	for (unsigned i = 0; i < measure_visits(row); i++)
		if (!strcmp(measure_visit_at(row, i)->visit.run, run))
			return measure_visit_at(row, i);
	return NULL;
}

static double run_value(const struct measure *row, const char *run, enum figure figure)
{
	struct measure one = { .visits = must(calloc(measure_visits(row), sizeof(*one.visits))) };
	double median;

	for (unsigned i = 0; i < measure_visits(row); i++)
		if (!strcmp(measure_visit_at(row, i)->visit.run, run))
			one.visits[one.visit_count++] = (struct measure *)measure_visit_at(row, i);
	median = measure_median(&one, figure);
	free(one.visits);
	return median;
}

/* Adds the runs of a row, without those that `except` has, too; NULL: with all. */
static void runs_add(struct runs *to, const struct measure *row, enum figure cost,
		     const struct measure *except)
{
	unsigned visits = measure_visits(row);

	to->costs = must(reallocarray(to->costs, to->count + visits, sizeof(*to->costs)));
	to->generators =
		must(reallocarray(to->generators, to->count + visits, sizeof(*to->generators)));
	for (unsigned i = 0; i < visits; i++) {
		const struct measure *visit = measure_visit_at(row, i);
		const char *run = visit->visit.run;

		if (!*run || first_of(row, run) != visit || (except && first_of(except, run)))
			continue;
		to->costs[to->count] = run_value(row, run, cost);
		to->generators[to->count] = run_value(row, run, FIGURE_GENERATOR_PER_REQUEST);
		to->count += to->costs[to->count] > 0;
	}
}

static void runs_free(struct runs *runs)
{
	free(runs->costs);
	free(runs->generators);
}

static bool all_known(const struct runs *runs)
{
	for (unsigned i = 0; i < runs->count; i++)
		if (!(runs->generators[i] > 0))
			return false;
	return true;
}

static double median_of(const double *values, unsigned count)
{
	double *sorted = must(calloc(count + 1U, sizeof(*sorted))), median;

	for (unsigned i = 0; i < count; i++)
		sorted[i] = values[i];
	median = numbers_median(sorted, count);
	free(sorted);
	return median;
}

/* ---- Pairs ---- */

static bool is_past_of(const struct measure *then, const struct measure *now, bool any_setup)
{
	return then->count && !strcmp(then->label, now->label) &&
	       !strcmp(then->listener, now->listener) && !strcmp(then->service, now->service) &&
	       !strcmp(then->operation, now->operation) &&
	       (any_setup || !strcmp(then->visit.setup, now->visit.setup));
}

static const struct measure *find(const struct measures *saved, const struct measure *now,
				  bool any_setup)
{
	for (unsigned i = 0; i < saved->count; i++)
		if (is_past_of(saved->rows[i], now, any_setup))
			return saved->rows[i];
	return NULL;
}

static void find_pair(struct result *r, struct result_row *row, const struct measures *saved)
{
	const struct measure *past = find(saved, row->row, false);
	const struct measure *other = past ? past : find(saved, row->row, true);

	if (!other)
		return;
	row->saved = must(calloc(1, sizeof(*row->saved)));
	*row->saved = (struct against_saved){ .row = other,
					      .generator_before = NAN,
					      .generator_now = NAN,
					      .other_setup = !past,
					      .gate = GATE_UNKNOWN };
	r->found++;
}

/* ---- Judging ---- */

/* The verdict is on the cost itself, or on its ratio to the generator's CPU time: in the same setup
 * that is the same work then and now, so the machine's speed cancels. */
static void judge_runs(struct against_saved *t, struct runs *past, struct runs *now,
		       bool by_requests, unsigned comparisons, double within)
{
	bool known = by_requests && past->count && now->count && all_known(past) && all_known(now);
	bool same_work = known && !t->other_setup;

	t->runs_before = past->count;
	t->runs_now = now->count;
	if (known) {
		t->generator_before = median_of(past->generators, past->count);
		t->generator_now = median_of(now->generators, now->count);
		t->machine_changed =
			same_work &&
			fabs(log(t->generator_now / t->generator_before)) > log1p(within);
	}
	for (unsigned i = 0; same_work && i < past->count; i++)
		past->costs[i] /= past->generators[i];
	for (unsigned i = 0; same_work && i < now->count; i++)
		now->costs[i] /= now->generators[i];
	t->verdict = verdict_of_runs(past->costs, past->count, now->costs, now->count, comparisons,
				     within);
}

static void judge_row(struct result *r, struct result_row *row, const struct measures *saved,
		      unsigned comparisons, bool force)
{
	struct against_saved *t = row->saved;
	const struct measure *const pair[] = { t->row, row->row };
	enum figure cost = comparison_cost((struct measure *const *)pair, 2);
	struct runs past = { 0 }, now = { 0 };

	for (unsigned j = 0; j < saved->count; j++)
		if (is_past_of(saved->rows[j], row->row, force || t->other_setup)) {
			t->other_setup |= !is_past_of(saved->rows[j], row->row, false);
			runs_add(&past, saved->rows[j], cost, row->row);
		}
	runs_add(&now, row->row, cost, NULL);
	/* Runs that are in both files are shown, though not judged. */
	t->before = past.count ? median_of(past.costs, past.count) : measure_median(t->row, cost);
	t->now = now.count ? median_of(now.costs, now.count) : measure_median(row->row, cost);
	judge_runs(t, &past, &now, cost == FIGURE_CPU_PER_REQUEST, comparisons, r->within);
	if ((t->other_setup && !force) || t->machine_changed || row->doubt != DOUBT_NONE)
		verdict_withdraw(&t->verdict, VERDICT_NOT_COMPARABLE);
	t->gate = gate_of(&t->verdict, r->within);
	if (isnan(t->verdict.change) || t->verdict.is == VERDICT_NOT_COMPARABLE)
		t->verdict.change = t->now / t->before - 1;
	runs_free(&past);
	runs_free(&now);
}

void against_saved_judge(struct result *r, const struct measures *saved, bool force)
{
	unsigned counts[GATES] = { 0 }, comparisons = 0;

	r->against = true;
	for (struct result_at at = { 0 }; result_next(r, &at);) {
		find_pair(r, at.row, saved);
		comparisons += at.row->saved && (force || !at.row->saved->other_setup);
	}
	for (struct result_at at = { 0 }; result_next(r, &at);) {
		if (at.row->saved)
			judge_row(r, at.row, saved, MAX(comparisons, 1U), force);
		counts[at.row->saved ? at.row->saved->gate : GATE_UNKNOWN]++;
	}
	r->against_gate = gate_of_all(counts);
	r->changed = changes_of(r);
}
