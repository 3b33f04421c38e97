/* The doctor's report: its items; and as text, a line for each check, then the reasons of failures,
 * grouped by their fix.  See doctor_report.h, doctor.h. */
#include "doctor_report.h"

#include <string.h>

#include "doctor.h"
#include "reason.h"
#include "util.h"

/* ---- Items ---- */

void doctor_set_reason(json_t *item, const char *reason, const char *fix)
{
	const char *semicolon = strstr(reason, "; "), *own_fix = reason_fix(reason);
	size_t length = semicolon ? (size_t)(semicolon - reason) : strlen(reason);

	json_object_set_new(item, "reason", json_stringn(reason, length));
	json_object_set_new(item, "fix", json_string(own_fix ? own_fix : fix));
}

void doctor_add(json_t *checks, const char *name, bool ok, const char *value, const char *reason,
		const char *fix)
{
	json_t *item = json_pack("{s:s, s:b, s:s}", "name", name, "ok", ok, "value", value);

	doctor_set_reason(item, ok ? "" : reason, ok ? "" : fix);
	json_array_append_new(checks, item);
}

bool doctor_passed(const json_t *report)
{
	return json_is_true(json_object_get(report, "passed"));
}

/* ---- As text ---- */

static const char *text_of(const json_t *item, const char *field)
{
	const char *text = json_string_value(json_object_get(item, field));

	return text ? text : "";
}

static bool is_good(const json_t *item)
{
	return json_is_true(json_object_get(item, "ok")) ||
	       json_is_true(json_object_get(item, "available"));
}

/* The feature's name, if the check is one of this engine's features that is there; else NULL. */
static const char *feature_of(const json_t *item, const char *engine)
{
	const char *name = text_of(item, "name"), *colon = strstr(name, ": ");

	if (!colon || strcmp(text_of(item, "value"), "yes") != 0)
		return NULL;
	if (engine && (strncmp(name, engine, (size_t)(colon - name)) || engine[colon - name]))
		return NULL;
	return colon + 2;
}

/* One line a check; the features of an engine that are there stand in the line of the engine. */
static void print_checks(const json_t *checks, FILE *to)
{
	const json_t *item, *other;
	size_t i, j;

	json_array_foreach(checks, i, item) {
		const char *name = text_of(item, "name"), *feature, *before = ": ";

		if (is_good(item) && feature_of(item, NULL))
			continue;
		fprintf(to, "%-3s %-36s %s", is_good(item) ? "ok" : "no", name,
			text_of(item, "value"));
		json_array_foreach(checks, j, other) {
			feature = is_good(other) ? feature_of(other, name) : NULL;
			if (feature)
				fprintf(to, "%s%s", before, feature);
			before = feature ? ", " : before;
		}
		fputc('\n', to);
	}
}

/* What a listener or an export would get. */
static void print_served(const json_t *items, const char *kind, const char *means,
			 const char *features, FILE *to)
{
	const json_t *item, *feature;
	size_t i, j;

	json_array_foreach(items, i, item) {
		fprintf(to, "%-3s %-8s %-27s %s", is_good(item) ? "ok" : "no", kind,
			text_of(item, "name"), text_of(item, means));
		if (is_good(item))
			json_array_foreach(json_object_get(item, features), j, feature)
				fprintf(to, "%s %s", j ? "," : ":", json_string_value(feature));
		fputc('\n', to);
	}
}

/* { fix: { "why": reason, "of": "name, name" } } */
static void add_missing(json_t *fixes, const json_t *items, const char *kind)
{
	const json_t *item;
	size_t i;

	json_array_foreach(items, i, item) {
		json_t *group = json_object_get(fixes, text_of(item, "fix"));
		json_t *names = json_object_get(group, "of");

		if (is_good(item))
			continue;
		if (!group) {
			group = json_pack("{s:s}", "why", text_of(item, "reason"));
			json_object_set_new(fixes, text_of(item, "fix"), group);
		}
		json_object_set_new(group, "of",
				    json_sprintf("%s%s%s%s", names ? json_string_value(names) : "",
						 names ? ", " : "", kind, text_of(item, "name")));
	}
}

static void print_missing(const json_t *report, FILE *to)
{
	json_t *fixes = json_object(), *group;
	const char *fix;
	size_t count;

	add_missing(fixes, json_object_get(report, "checks"), "");
	add_missing(fixes, json_object_get(report, "listeners"), "listener ");
	add_missing(fixes, json_object_get(report, "exports"), "export ");
	json_object_foreach(fixes, fix, group)
		fprintf(to, "\n%s\n      why: %s\n      fix: %s\n", text_of(group, "of"),
			text_of(group, "why"), fix);
	count = json_object_size(fixes);
	if (count)
		fprintf(to, "\n%zu thing%s to fix; %s.\n", count, plural(count),
			doctor_passed(report)
				? "each listener that is not optional, and each export, is served"
				: "a listener that is not optional, or an export, is not served");
	else
		fputs("\nNothing to fix.\n", to);
	json_decref(fixes);
}

void doctor_print(const json_t *report, FILE *to)
{
	print_checks(json_object_get(report, "checks"), to);
	print_served(json_object_get(report, "listeners"), "listener", "engine", "engine_features",
		     to);
	print_served(json_object_get(report, "exports"), "export", "store", "features", to);
	print_missing(report, to);
}
