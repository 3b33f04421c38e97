/* What differs between then and now: host, versions, build, command, keys.  See against.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "against.h"
#include "field.h"
#include "util.h"

/* In conditions; of a listener: it is named with the fact, as each has its own. */
static const struct fact {
	const char *what, *path;
	bool of_listener;
} facts[] = {
	{ "kernel", "host.kernel", false },
	{ "machine", "host.machine", false },
	{ "CPU", "host.cpu", false },
	{ "CPUs", "host.cpus", false },
	{ "CPU mitigation", "host.mitigations", false },
	{ "frequency governor", "host.governor", false },
	{ "turbo", "host.turbo", false },
	{ "transparent huge pages", "host.transparent_hugepages", false },
	{ "clock source", "host.clocksource", false },
	{ "NUMA nodes", "host.numa_nodes", false },
	{ "generator's kernel", "generator_host.kernel", false },
	{ "generator's CPU", "generator_host.cpu", false },
	{ "generator's frequency governor", "generator_host.governor", false },
	{ "nbserved", "nbserved", false },
	{ "nbctl", "nbctl", false },
	{ "generator", "generator", false },
	{ "generator's CPUs", "generator_cpus", false },
	{ "command", "command_given", false },
	{ "command", "command", false }, /* its ports may differ from run to run */
	{ "CPUs", "listener_cpus", true },
	{ "key", "listener", true },
	{ "export", "exports", true },
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

/* What was seen of each fact, by the keys of those that are objects, else "":
 * { "CPU mitigation": { "spectre_v2": { "Mitigation: ...": true } }, "build": { "": ... } } */
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
		snprintf(name, sizeof(name), "%s%s%s", f->of_listener ? visit->listener : "",
			 f->of_listener ? ": " : "", f->what);
		parts = member(seen, name);
		if (json_is_object(value))
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
	const char *value, *between = "";
	json_t *values = json_object_get(parts, key), *unused, *made;
	char *text;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	if (!to)
		abort();
	json_object_foreach(values, value, unused) {
		fprintf(to, "%s%s", between, value);
		between = " or ";
	}
	fputs(*between ? "" : "-", to);
	fclose(to);
	made = json_string(text);
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

static json_t *differences(json_t *then, json_t *now)
{
	json_t *changes = json_array(), *parts, *value;
	const char *what, *key;

	json_object_foreach(now, what, parts) {
		json_t *past = json_object_get(then, what);

		if (!past)
			continue; /* not saved then */
		json_object_foreach(parts, key, value)
			tell(changes, what, key, past, parts);
		json_object_foreach(past, key, value)
			if (!json_object_get(parts, key))
				tell(changes, what, key, past, parts);
	}
	return changes;
}

json_t *against_changes(const struct groups *pairs)
{
	json_t *then = json_object(), *now = json_object(), *changes;

	for (unsigned i = 0; i < pairs->count; i++) {
		const struct group *g = &pairs->list[i];

		if (g->count < 2)
			continue;
		add_row(then, g->rows[0]);
		add_row(now, g->rows[1]);
	}
	changes = differences(then, now);
	json_decref(then);
	json_decref(now);
	return changes;
}
