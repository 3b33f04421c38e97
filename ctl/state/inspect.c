/* `nbctl config`, `nbctl doctor`.  The daemon makes the text, the same as of `nbserved
 * --dump-config` and `--doctor`; here it is only coloured. */
#include <string.h>

#include "ctl.h"
#include "field.h"

/* ---- config ---- */

/* `[section]`, `key = value ; where it came from, what a reload does`. */
static void render_config_line(struct output *out, const char *line, int bytes)
{
	const char *comment = memmem(line, (size_t)bytes, " ; ", 3);
	int before = comment ? (int)(comment - line) : bytes;
	bool whole = bytes && line[0] == ';';

	output_text(out,
		    whole          ? STYLE_DIM
		    : *line == '[' ? STYLE_BOLD
				   : STYLE_PLAIN,
		    "%.*s", before, line);
	output_text(out, STYLE_DIM, "%.*s\n", bytes - before, line + before);
}

/* ---- doctor ---- */

/* `ok  name value`, `no  name value`, `      fix: what to do`. */
static void render_doctor_line(struct output *out, const char *line, int bytes)
{
	bool good = !strncmp(line, "ok ", 3), bad = !strncmp(line, "no ", 3);
	int verdict = good || bad ? 2 : 0;

	output_text(out, good ? STYLE_GOOD : STYLE_BAD, "%.*s", verdict, line);
	output_text(out, memmem(line, (size_t)bytes, " fix: ", 6) ? STYLE_WARN : STYLE_PLAIN,
		    "%.*s\n", bytes - verdict, line + verdict);
}

/* ---- Both ---- */

static void render_lines(struct output *out, const json_t *reply,
			 void (*render)(struct output *out, const char *line, int bytes))
{
	const char *text = field_text(reply, "text");

	while (*text) {
		size_t bytes = strcspn(text, "\n");

		render(out, text, (int)bytes);
		text += bytes + (text[bytes] == '\n');
	}
}

static void render_config(struct output *out, const json_t *reply)
{
	render_lines(out, reply, render_config_line);
}

static void render_doctor(struct output *out, const json_t *reply)
{
	render_lines(out, reply, render_doctor_line);
}

static json_t *text_wanted(const struct ctl *ctl)
{
	return ctl->out.json ? NULL : json_pack("{s:b}", "text", true);
}

static int run_config(struct ctl *ctl)
{
	return ctl_show(ctl, "GetConfig", text_wanted(ctl), render_config);
}

const struct command command_config = {
	.name = "config",
	.arguments = "",
	.summary = "the configuration in force, and where each value came from",
	.details = "As `nbserved --dump-config` prints it: it can be put into a file.\n",
	.example = "nbctl config\nnbctl config --json",
	.run = run_config,
};

static int run_doctor(struct ctl *ctl)
{
	json_t *report = NULL;
	int rc = ctl_call(ctl, "Doctor", text_wanted(ctl), &report);

	if (rc != CTL_DONE)
		return rc;
	if (ctl->out.json)
		output_json(&ctl->out, report, false);
	else
		render_doctor(&ctl->out, report);
	rc = json_is_false(field_get(report, "passed")) ? CTL_REFUSED : CTL_DONE;
	json_decref(report);
	return rc;
}

const struct command command_doctor = {
	.name = "doctor",
	.arguments = "",
	.summary = "check this host, and tell how to fix each \"no\"",
	.details =
		"Without a running daemon: `nbserved --doctor`.  The exit status is 1 if a listener that is\n"
		"not optional, or an export, is unavailable.\n",
	.example = "nbctl doctor",
	.run = run_doctor,
};
