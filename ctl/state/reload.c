/* Putting a changed configuration in force: `nbctl reload`. */
#include "ctl.h"
#include "field.h"

enum { VALUE_DRY_RUN, VALUE_QUIET };

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

static void render_reload(struct output *out, const json_t *reply)
{
	print_changes(out, reply);
	output_text(out, STYLE_DIM, "generation %llu\n",
		    (unsigned long long)field_uint(reply, "generation"));
}

static int run_reload(struct ctl *ctl)
{
	bool dry_run = ctl->values[VALUE_DRY_RUN];

	ctl->quiet = ctl->values[VALUE_QUIET];
	return ctl_show(ctl, "Reload", json_pack("{s:b}", "dry_run", dry_run),
			ctl->quiet ? NULL
			: dry_run  ? render_dry_run
				   : render_reload);
}

const struct command command_reload = {
	.name = "reload",
	.arguments = "",
	.summary = "put the changed configuration in force, all of it or nothing",
	.details = "Prints what changed.  When something is wrong, prints all errors, changes\n"
		   "nothing and exits 1; when a restart is needed, changes nothing and exits 4.\n",
	.example = "nbctl reload --dry-run\nnbctl reload",
	.options = {
		[VALUE_DRY_RUN] = { "dry-run", OPTION_FLAG, NULL, "print the changes only" },
		[VALUE_QUIET] = { "quiet", OPTION_FLAG, NULL,
				  "print nothing that the daemon's log says" },
	},
	.run = run_reload,
};
