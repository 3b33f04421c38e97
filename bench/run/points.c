/* See points.h. */
#include "points.h"

#include <stdlib.h>
#include <string.h>

#include "brace.h"
#include "must.h"
#include "text.h"

static int add_sweeps(struct points *p, struct ctl *ctl, char **sweeps)
{
	struct reason reason = { "" };

	for (; sweeps && *sweeps; sweeps++)
		if (sweeps_add(&p->sweeps, *sweeps, &reason) < 0)
			return ctl_usage(ctl, "%s", reason.text);
	return CTL_DONE;
}

static int count_points(struct points *p, struct ctl *ctl)
{
	p->count = sweeps_combinations(&p->sweeps);
	if (p->count > SWEEP_COMBINATIONS_MAX)
		return ctl_usage(ctl, "--sweep: these are more than %d combinations of values",
				 SWEEP_COMBINATIONS_MAX);
	return CTL_DONE;
}

/* Does any of the words have the placeholder of sweep i?  words NULL: there are no words. */
static bool is_used(const struct sweeps *s, unsigned i, char *const *words)
{
	for (; words && *words; words++)
		if (sweeps_names(s, i, *words))
			return true;
	return false;
}

/* Checks that each sweep's placeholder is used, and that the specs have no other placeholders. */
static int check_names(const struct points *p, struct ctl *ctl)
{
	const struct sweeps *s = &p->sweeps;
	struct brace brace;
	int rc = CTL_DONE;

	for (unsigned i = 0; i < s->count; i++)
		if (!is_used(s, i, ctl->specs) && !is_used(s, i, ctl->rest))
			return ctl_usage(ctl, "--sweep %s: neither COMMAND nor a SPEC has {%s}",
					 s->list[i].name, s->list[i].name);
	for (char **spec = ctl->specs; spec && *spec && rc == CTL_DONE; spec++) {
		char *filled = sweeps_fill(s, 0, *spec, false);

		for (const char *at = filled; rc == CTL_DONE && brace_find(at, &brace);
		     at = brace.text + brace.bytes)
			if (!brace.doubled)
				rc = ctl_usage(
					ctl,
					"a SPEC has %.*s: --sweep gives it no values; {%.*s} "
					"stands for the text itself",
					(int)brace.bytes, brace.text, (int)brace.bytes, brace.text);
		free(filled);
	}
	return rc;
}

/* "TEXT, c=10, d=0" */
static char *label_of(const struct sweeps *s, unsigned combination, const char *label)
{
	char *text = NULL;
	FILE *to = text_open(&text);

	fputs(label, to);
	for (unsigned i = 0; i < s->count; i++)
		fprintf(to, "%s%s=%s", i || *label ? ", " : "", s->list[i].name,
			sweeps_value(s, i, combination));
	fclose(to);
	return text;
}

static json_t *values_of(const struct sweeps *s, unsigned combination)
{
	json_t *values = json_object();

	for (unsigned i = 0; i < s->count; i++) {
		json_t *value = json_string(sweeps_value(s, i, combination));

		json_object_set_new(values, s->list[i].name,
				    value ? value : json_string("(no UTF-8)"));
	}
	return values;
}

static void point_init(struct point *point, const struct sweeps *s, unsigned combination,
		       char *const *command, const char *label)
{
	unsigned count = 0;

	while (command && command[count])
		count++;
	point->command = must(calloc(count + 1, sizeof(*point->command)));
	for (unsigned i = 0; i < count; i++)
		point->command[i] = sweeps_fill(s, combination, command[i], false);
	point->label = label_of(s, combination, label);
	if (s->count)
		point->sweep = json_pack("{s:s, s:i, s:o}", "label", label, "place",
					 (int)combination, "values", values_of(s, combination));
}

int points_init(struct points *p, struct ctl *ctl, char **sweeps, const char *label)
{
	unsigned count;
	int rc;

	*p = (struct points){};
	if (sweeps && !ctl->rest)
		return ctl_usage(ctl, "--sweep needs a command after `--`");
	rc = add_sweeps(p, ctl, sweeps);
	if (rc == CTL_DONE)
		rc = count_points(p, ctl);
	if (rc == CTL_DONE)
		rc = check_names(p, ctl);
	count = rc == CTL_DONE ? p->count : 0;
	p->list = must(calloc(count + 1, sizeof(*p->list)));
	p->count = count;
	for (unsigned i = 0; i < count; i++)
		point_init(&p->list[i], &p->sweeps, i, ctl->rest, label ? label : "");
	return rc;
}

void points_fini(struct points *p)
{
	for (unsigned i = 0; i < p->count; i++) {
		free(p->list[i].label);
		for (char **word = p->list[i].command; *word; word++)
			free(*word);
		free(p->list[i].command);
		json_decref(p->list[i].sweep);
	}
	free(p->list);
	sweeps_fini(&p->sweeps);
}
