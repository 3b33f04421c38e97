/* Putting a changed configuration in force: `nbctl reload`, `nbctl confirm`. */
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "field.h"
#include "parse.h"

enum { VALUE_DRY_RUN, VALUE_CONFIRM, VALUE_QUIET };
enum { CONFIRM_MAX_S = 86400 };

static void print_changes(struct output *out, const json_t *reply)
{
	json_t *change;
	size_t i;

	json_array_foreach(field_get(reply, "changes"), i, change)
		output_text(out, STYLE_PLAIN, "%s\n", json_string_value(change));
	if (i == 0)
		output_text(out, STYLE_PLAIN, "no change\n");
}

static void render_dry_run(struct output *out, const json_t *reply)
{
	print_changes(out, reply);
	output_text(out, STYLE_DIM, "dry run: still generation %llu\n",
		    (unsigned long long)field_uint(reply, "generation"));
}

static void render_confirm(struct output *out, const json_t *reply)
{
	output_text(out, STYLE_DIM, "generation %llu\n",
		    (unsigned long long)field_uint(reply, "generation"));
}

static void render_reload(struct output *out, const json_t *reply)
{
	print_changes(out, reply);
	render_confirm(out, reply);
}

static void render_nothing(struct output *out, const json_t *reply)
{
	(void)out;
	(void)reply;
}

static int run_reload(struct ctl *ctl)
{
	bool dry_run = ctl->values[VALUE_DRY_RUN];
	const char *confirm = ctl->values[VALUE_CONFIRM];
	json_t *parameters = json_pack("{s:b}", "dry_run", dry_run);
	uint64_t seconds;

	if (confirm) {
		if (parse_uint(confirm, &seconds) < 0 || seconds < 1 || seconds > CONFIRM_MAX_S) {
			json_decref(parameters);
			return ctl_usage(ctl, "--confirm: expected a number from 1 to %d, got '%s'",
					 CONFIRM_MAX_S, confirm);
		}
		json_object_set_new(parameters, "confirm_timeout_s",
				    json_integer((json_int_t)seconds));
	}
	ctl->quiet = ctl->values[VALUE_QUIET];
	return ctl_show(ctl, "Reload", parameters,
			ctl->quiet ? render_nothing
			: dry_run  ? render_dry_run
				   : render_reload);
}

const struct command command_reload = {
	.name = "reload",
	.arguments = "",
	.summary = "put the changed configuration in force, all of it or nothing",
	.details = "Prints what changed.  When something is wrong, prints all errors, changes\n"
		   "nothing and exits 1; when a restart is needed, changes nothing and exits 4.\n",
	.example = "nbctl reload --dry-run\nnbctl reload --confirm 30 && nbctl confirm",
	.options = {
		[VALUE_DRY_RUN] = { "dry-run", OPTION_FLAG, NULL, "print the changes only" },
		[VALUE_CONFIRM] = { "confirm", OPTION_VALUE, "SECONDS",
				    "undo it, unless `nbctl confirm` follows in time" },
		[VALUE_QUIET] = { "quiet", OPTION_FLAG, NULL,
				  "print nothing that the daemon's log says" },
	},
	.run = run_reload,
};

static int run_confirm(struct ctl *ctl)
{
	return ctl_show(ctl, "ConfirmReload", NULL, render_confirm);
}

const struct command command_confirm = {
	.name = "confirm",
	.arguments = "",
	.summary = "keep the changes of `nbctl reload --confirm`",
	.example = "nbctl confirm",
	.run = run_confirm,
};
