/* What differs between then and now: host, versions, build, command, keys.  See result.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "parts.h"
#include "util.h"

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
static void add_visit(json_t *seen, const struct measure *visit)
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
		add_visit(seen, measure_visit_at(row, i));
}

/* "a or b"; a key that was not set is "-" */
static json_t *values_text(const json_t *parts, const char *key)
{
	char *text = field_show_names(json_object_get(parts, key), NULL, " or ");
	json_t *made = json_string(*text ? text : "-");

	free(text);
	return made;
}

static void tell(json_t *changes, const char *what, const char *key, const json_t *then,
		 const json_t *now)
{
	if (json_equal(json_object_get(then, key), json_object_get(now, key)))
		return;
	json_array_append_new(changes,
			      json_pack("{s:o, s:o, s:o}", "what",
					json_sprintf("%s%s%s", what, *key ? " " : "", key), "then",
					values_text(then, key), "now", values_text(now, key)));
}

/* Those that only one side has: "avx2 fsrm". */
static void tell_words(json_t *changes, const char *what, json_t *then, json_t *now)
{
	char *gone = field_show_names(then, now, " "), *come = field_show_names(now, then, " ");

	if (*gone || *come)
		json_array_append_new(changes,
				      json_pack("{s:s, s:s, s:s}", "what", what, "then",
						*gone ? gone : "-", "now", *come ? come : "-"));
	free(gone);
	free(come);
}

static json_t *differences(json_t *then, json_t *now)
{
	json_t *changes = json_array(), *parts, *value;
	const char *what, *key;

	json_object_foreach(now, what, parts) {
		json_t *past = json_object_get(then, what);

		if (!past)
			continue; /* not saved then */
		if (json_is_true(json_object_iter_value(json_object_iter(parts)))) {
			tell_words(changes, what, past, parts);
			continue;
		}
		json_object_foreach(parts, key, value)
			tell(changes, what, key, past, parts);
		json_object_foreach(past, key, value)
			if (!json_object_get(parts, key))
				tell(changes, what, key, past, parts);
	}
	return changes;
}

json_t *changes_of(const struct result *r)
{
	json_t *then = json_object(), *now = json_object(), *changes;

	for (struct result_at at = { 0 }; result_next(r, &at);)
		if (at.row->then) {
			add_row(then, at.row->then->row);
			add_row(now, at.row->row);
		}
	changes = differences(then, now);
	json_decref(then);
	json_decref(now);
	return changes;
}
