/* Commands that look at what the daemon was given: `nbctl config`, `nbctl doctor`. */
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "field.h"
#include "util.h"

/* ---- config ---- */

enum { ORIGIN_COLUMN = 40 };

/* `key = value ; where it came from (what a reload does)`; a line for each value of a list key that
 * the file repeats. */
static void render_key(struct output *out, const char *name, const json_t *key)
{
	const json_t *value = field_get(key, "value");
	const char *origin = field_text(key, "origin"), *class = field_text(key, "class");
	bool repeated = json_is_array(value) && !strcmp(name, "address");
	bool empty = json_is_array(value) && json_array_size(value) == 0;
	size_t count = repeated ? json_array_size(value) : !empty;

	for (size_t i = 0; i < count; i++) {
		char *text = field_show(repeated ? json_array_get(value, i) : value);
		unsigned used = text_width(name) + 3 + text_width(text);
		bool is_default = !*origin || !strcmp(origin, "default");

		output_text(out, STYLE_PLAIN, "%s =%s%s", name, *text ? " " : "", text);
		output_text(out, STYLE_DIM, "%*s; %s%s%s%s\n",
			    (int)(used < ORIGIN_COLUMN ? ORIGIN_COLUMN - used : 1), "",
			    is_default ? "default" : origin, *class ? " (" : "", class,
			    *class ? ")" : "");
		free(text);
	}
}

static void render_keys(struct output *out, const json_t *keys)
{
	const char *name;
	json_t *key;

	json_object_foreach((json_t *)keys, name, key)
		render_key(out, name, key);
}

static void render_sections(struct output *out, const char *kind, const json_t *sections)
{
	json_t *section;
	size_t i;

	json_array_foreach(sections, i, section) {
		output_text(out, STYLE_BOLD, "\n[%s %s]\n", kind, field_text(section, "name"));
		render_keys(out, field_get(section, "keys"));
	}
}

static void render_config(struct output *out, const json_t *reply)
{
	output_text(out, STYLE_DIM,
		    "; the configuration in force: each key's origin (what a reload "
		    "does with it)\n");
	output_text(out, STYLE_BOLD, "[server]\n");
	render_keys(out, field_get(reply, "server"));
	render_sections(out, "listener", field_get(reply, "listeners"));
	render_sections(out, "export", field_get(reply, "exports"));
}

static int run_config(struct ctl *ctl)
{
	return ctl_show(ctl, "GetConfig", NULL, render_config);
}

const struct command command_config = {
	.name = "config",
	.arguments = "",
	.summary = "the configuration in force, and where each value came from",
	.example = "nbctl config\nnbctl config --json",
	.run = run_config,
};

/* ---- doctor ---- */

/* Width of the longest name in a list. */
static unsigned names_width(const json_t *list)
{
	unsigned width = 0;
	json_t *item;
	size_t i;

	json_array_foreach(list, i, item)
		width = MAX(width, text_width(field_text(item, "name")));
	return width;
}

static void render_verdict(struct output *out, bool ok, unsigned width, const char *name,
			   const char *value)
{
	output_text(out, ok ? STYLE_GOOD : STYLE_BAD, "%s", ok ? "  ok  " : "  NO  ");
	output_text(out, STYLE_BOLD, "%s", name);
	if (*value)
		output_text(out, STYLE_PLAIN, "%*s%s", (int)(width + 2 - text_width(name)), "",
			    value);
	output_text(out, STYLE_PLAIN, "\n");
}

/* `label: text` under a verdict. */
static void render_line(struct output *out, enum style style, const char *label, const char *text)
{
	if (*text)
		output_wrapped(out, style, 8, "      %s%s", label, text);
}

static void render_check(struct output *out, unsigned width, const json_t *check)
{
	bool ok = field_bool(check, "ok");
	char *value = field_show(field_get(check, "value"));

	render_verdict(out, ok, width, field_text(check, "name"), value);
	render_line(out, STYLE_PLAIN, "", field_text(check, "reason"));
	render_line(out, STYLE_WARN, "fix: ", field_text(check, "fix"));
	free(value);
}

/* Listeners or exports: what each would get, or why it would not. */
static void render_verdicts(struct output *out, const char *title, const json_t *list,
			    const char *means, const char *features)
{
	json_t *item;
	size_t i;

	if (json_array_size(list))
		output_text(out, STYLE_BOLD, "\n%s\n", title);
	json_array_foreach(list, i, item) {
		char *text = field_show(field_get(item, features));

		render_verdict(out, field_bool(item, "available"), names_width(list),
			       field_text(item, "name"), field_text(item, means));
		render_line(out, STYLE_DIM, "", text);
		render_line(out, STYLE_PLAIN, "", field_text(item, "reason"));
		render_line(out, STYLE_WARN, "fix: ", field_text(item, "fix"));
		free(text);
	}
}

static void render_doctor(struct output *out, const json_t *reply)
{
	json_t *checks = field_get(reply, "checks"), *item;
	size_t i;

	output_text(out, STYLE_BOLD, "This host\n");
	json_array_foreach(checks, i, item)
		render_check(out, names_width(checks), item);
	render_verdicts(out, "Listeners", field_get(reply, "listeners"), "engine",
			"engine_features");
	render_verdicts(out, "Exports", field_get(reply, "exports"), "store", "features");
}

static int run_doctor(struct ctl *ctl)
{
	return ctl_show(ctl, "Doctor", NULL, render_doctor);
}

const struct command command_doctor = {
	.name = "doctor",
	.arguments = "",
	.summary = "what this host allows, and how to fix each \"no\"",
	.details = "Without a running daemon: `nbserved --doctor`.\n",
	.example = "nbctl doctor",
	.run = run_doctor,
};
