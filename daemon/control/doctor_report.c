/* The doctor's report: its items; and as text, a line for each check, with the reason and the fix
 * under each failure.  See doctor_report.h, doctor.h. */
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

void doctor_add(json_t *checks, const char *name, enum doctor_need need, bool ok, const char *value,
		const char *reason, const char *fix)
{
	json_t *item = json_pack("{s:s, s:b, s:b, s:s}", "name", name, "ok", ok, "optional",
				 need == DOCTOR_OPTIONAL, "value", value);

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

static bool is_optional(const json_t *item)
{
	return json_is_true(json_object_get(item, "optional"));
}

/* The failures that have been printed, so that a common reason stands there once. */
struct failures {
	json_t *first; /* by reason and fix: the name of the first item with them */
	json_t *fixes; /* of what is not optional */
	unsigned optional;
};

/* Ends the line of a check, and says under a failure why, and how to fix it, both once. */
static void end_line(struct failures *f, const json_t *item, const char *kind, FILE *to)
{
	const char *reason = text_of(item, "reason"), *fix = text_of(item, "fix"), *first;
	json_t *both;

	if (is_good(item)) {
		fputc('\n', to);
		return;
	}
	if (is_optional(item))
		f->optional++;
	else
		json_object_set_new(f->fixes, fix, json_true());
	both = json_sprintf("%s\n%s", reason, fix);
	first = text_of(f->first, json_string_value(both));
	if (*first)
		fprintf(to, "%s\n      as %s, above\n", is_optional(item) ? " (optional)" : "",
			first);
	else
		fprintf(to, "%s\n      why: %s\n      fix: %s\n",
			is_optional(item) ? " (optional)" : "", reason, fix);
	if (!*first)
		json_object_set_new(f->first, json_string_value(both),
				    json_sprintf("%s%s", kind, text_of(item, "name")));
	json_decref(both);
}

/* One line a check; the features of an engine that are there stand in the line of the engine. */
static void print_checks(struct failures *f, const json_t *checks, FILE *to)
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
		end_line(f, item, "", to);
	}
}

/* What a listener or an export would get. */
static void print_served(struct failures *f, const json_t *items, const char *kind,
			 const char *means, const char *features, FILE *to)
{
	const json_t *item, *feature;
	char before[16];
	size_t i, j;

	snprintf(before, sizeof(before), "%s ", kind);
	json_array_foreach(items, i, item) {
		fprintf(to, "%-3s %-8s %-27s %s", is_good(item) ? "ok" : "no", kind,
			text_of(item, "name"), text_of(item, means));
		if (is_good(item))
			json_array_foreach(json_object_get(item, features), j, feature)
				fprintf(to, "%s %s", j ? "," : ":", json_string_value(feature));
		end_line(f, item, before, to);
	}
}

void doctor_print(const json_t *report, FILE *to)
{
	struct failures f = { json_object(), json_object(), 0 };
	size_t count;

	print_checks(&f, json_object_get(report, "checks"), to);
	print_served(&f, json_object_get(report, "listeners"), "listener", "engine",
		     "engine_features", to);
	print_served(&f, json_object_get(report, "exports"), "export", "store", "features", to);
	count = json_object_size(f.fixes);
	if (count)
		fprintf(to, "\n%zu thing%s to fix; %s.\n", count, plural(count),
			doctor_passed(report)
				? "each listener that is not optional, and each export, is served"
				: "a listener that is not optional, or an export, is not served");
	else
		fprintf(to, "\nNothing to fix%s.\n",
			f.optional ? "; what is optional you may leave" : "");
	json_decref(f.first);
	json_decref(f.fixes);
}
