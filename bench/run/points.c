/* See points.h. */
#include "points.h"

#include <stdlib.h>
#include <string.h>

#include "brace.h"
#include "field.h"
#include "must.h"
#include "placeholders.h"
#include "text.h"
#include "util.h"

/* ---- Values ---- */

static int check_name(struct points *p, struct ctl *ctl, const char *name)
{
	if (name[strspn(name, "abcdefghijklmnopqrstuvwxyz_")])
		return ctl_usage(ctl,
				 "--sweep %s: a name has lower-case letters and underscores only",
				 name);
	for (unsigned i = 0; i < PLACEHOLDER_COUNT; i++)
		if (!strcmp(name, placeholder_names[i]))
			return ctl_usage(ctl,
					 "--sweep %s: {%s} already stands for a property of the "
					 "listener or host; choose another name",
					 name, name);
	if (json_object_get(p->sweeps, name))
		return ctl_usage(
			ctl, "--sweep %s is given twice; list all values in one, NAME=V1,V2", name);
	return CTL_DONE;
}

/* Takes the values out of text. */
static int add_values(struct ctl *ctl, const char *name, json_t *values, char *text)
{
	for (char *value; (value = strsep(&text, ","));) {
		size_t before = json_array_size(values);

		if (!*value)
			return ctl_usage(ctl, "--sweep %s: a value is empty", name);
		if (before == POINTS_MAX)
			return ctl_usage(ctl, "--sweep %s: more than %d values", name, POINTS_MAX);
		field_add_once(values, json_string(value));
		if (json_array_size(values) == before)
			return ctl_usage(ctl, "--sweep %s: %s is there twice, or not UTF-8", name,
					 value);
	}
	return CTL_DONE;
}

static int add_sweep(struct points *p, struct ctl *ctl, const char *text)
{
	char *name = must(strdup(text)), *equals = strchr(name, '=');
	json_t *values;
	int rc;

	if (!equals || equals == name) {
		free(name);
		return ctl_usage(ctl, "--sweep: expected NAME=VALUE,..., got '%s'", text);
	}
	*equals = '\0';
	rc = check_name(p, ctl, name);
	if (rc == CTL_DONE) {
		json_object_set_new(p->sweeps, name, values = json_array());
		rc = add_values(ctl, name, values, equals + 1);
		p->count *= MAX((unsigned)json_array_size(values), 1U);
		if (rc == CTL_DONE && p->count > POINTS_MAX)
			rc = ctl_usage(ctl,
				       "--sweep: these are more than %d combinations of values",
				       POINTS_MAX);
	}
	free(name);
	return rc;
}

/* ---- Placeholders ---- */

static const char *value_of(const void *context, const struct brace *brace)
{
	const struct point *point = context;
	const char *name;
	json_t *value;

	json_object_foreach(point->values, name, value)
		if (brace_is(brace, name))
			return json_string_value(value);
	return NULL;
}

char *point_fill(const struct point *point, const char *text, bool last)
{
	return brace_fill(text, value_of, point, last);
}

static bool is_swept(const struct points *p, const struct brace *brace)
{
	const char *name;
	json_t *values;

	json_object_foreach(p->sweeps, name, values)
		if (brace_is(brace, name))
			return true;
	return false;
}

/* Finds the first placeholder `{name}` in the words.  name NULL: the first that a sweep gives
 * values to, or with `other` the first that none does.  words NULL: there are no words. */
static bool find(const struct points *p, char *const *words, const char *name, bool other,
		 struct brace *ret)
{
	for (; words && *words; words++)
		for (const char *at = *words; brace_find(at, ret); at = ret->text + ret->bytes)
			if (name ? brace_is(ret, name) : !ret->doubled && is_swept(p, ret) != other)
				return true;
	return false;
}

bool points_in(const struct points *p, char *const *words)
{
	struct brace brace;

	return find(p, words, NULL, false, &brace);
}

/* Checks that each sweep's placeholder is used, and that the specs have no other placeholders. */
static int check_names(const struct points *p, struct ctl *ctl)
{
	struct brace brace;
	const char *name;
	json_t *values;

	json_object_foreach(p->sweeps, name, values)
		if (!find(p, ctl->specs, name, false, &brace) &&
		    !find(p, ctl->rest, name, false, &brace))
			return ctl_usage(ctl, "--sweep %s: neither COMMAND nor a SPEC has {%s}",
					 name, name);
	if (find(p, ctl->specs, NULL, true, &brace))
		return ctl_usage(ctl,
				 "a SPEC has %.*s: --sweep gives it no values; {%.*s} stands for "
				 "the text itself",
				 (int)brace.bytes, brace.text, (int)brace.bytes, brace.text);
	return CTL_DONE;
}

/* ---- Points ---- */

/* The values of one combination; the last sweep is the first to change. */
static json_t *values_of(const struct points *p, unsigned place)
{
	json_t *made = json_object(), *values;
	unsigned each = p->count;
	const char *name;

	json_object_foreach(p->sweeps, name, values) {
		each /= (unsigned)json_array_size(values);
		json_object_set(made, name,
				json_array_get(values, place / each % json_array_size(values)));
	}
	return made;
}

/* "TEXT, c=10, d=0" */
static char *label_of(const struct point *point, const char *label)
{
	char *text = NULL;
	FILE *to = text_open(&text);
	const char *name, *before = *label ? ", " : "";
	json_t *value;

	fputs(label, to);
	json_object_foreach(point->values, name, value) {
		fprintf(to, "%s%s=%s", before, name, json_string_value(value));
		before = ", ";
	}
	fclose(to);
	return text;
}

static void point_init(struct point *point, const struct points *p, unsigned place,
		       char *const *command, const char *label)
{
	unsigned count = 0;

	while (command && command[count])
		count++;
	point->values = values_of(p, place);
	point->command = must(calloc(count + 1, sizeof(*point->command)));
	for (unsigned i = 0; i < count; i++)
		point->command[i] = point_fill(point, command[i], false);
	point->label = label_of(point, label);
	if (json_object_size(p->sweeps))
		point->sweep = json_pack("{s:s, s:O}", "label", label, "values", point->values);
}

int points_init(struct points *p, struct ctl *ctl, char **sweeps, const char *label)
{
	int rc = CTL_DONE;

	*p = (struct points){ .sweeps = json_object(), .count = 1 };
	if (sweeps && !ctl->rest)
		rc = ctl_usage(ctl, "--sweep needs a command after `--`");
	for (; rc == CTL_DONE && sweeps && *sweeps; sweeps++)
		rc = add_sweep(p, ctl, *sweeps);
	if (rc == CTL_DONE)
		rc = check_names(p, ctl);
	p->count = rc == CTL_DONE ? p->count : 0;
	p->list = must(calloc(p->count + 1, sizeof(*p->list)));
	for (unsigned i = 0; i < p->count; i++)
		point_init(&p->list[i], p, i, ctl->rest, label ? label : "");
	return rc;
}

void points_fini(struct points *p)
{
	for (unsigned i = 0; i < p->count; i++) {
		free(p->list[i].label);
		for (char **word = p->list[i].command; *word; word++)
			free(*word);
		free(p->list[i].command);
		json_decref(p->list[i].values);
		json_decref(p->list[i].sweep);
	}
	free(p->list);
	json_decref(p->sweeps);
}
