/* Putting a changed configuration in force: `nbctl reload`, `set`, `add`, `remove`, `confirm`. */
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "field.h"
#include "parse.h"

enum { VALUE_DRY_RUN, VALUE_CONFIRM, VALUE_QUIET };
enum { CONFIRM_MAX_S = 86400 };

/* Of every command that changes the configuration. */
#define CHANGE_OPTIONS                                                                             \
	[VALUE_DRY_RUN] = { "dry-run", OPTION_FLAG, NULL, "print the changes only" },              \
	[VALUE_CONFIRM] = { "confirm", OPTION_VALUE, "SECONDS",                                    \
			    "undo it, unless `nbctl confirm` follows in time" }

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

/* Takes ownership of parameters. */
static int change(struct ctl *ctl, const char *method, json_t *parameters)
{
	bool dry_run = ctl->values[VALUE_DRY_RUN];
	const char *confirm = ctl->values[VALUE_CONFIRM];
	uint64_t seconds;

	json_object_set_new(parameters, "dry_run", json_boolean(dry_run));

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
	return ctl_show(ctl, method, parameters,
			ctl->quiet ? NULL
			: dry_run  ? render_dry_run
				   : render_reload);
}

static int run_reload(struct ctl *ctl)
{
	return change(ctl, "Reload", json_object());
}

const struct command command_reload = {
	.name = "reload",
	.arguments = "",
	.summary = "put the changed configuration in force, all of it or nothing",
	.details = "Prints what changed.  When something is wrong, prints all errors, changes\n"
		   "nothing and exits 1; when a restart is needed, changes nothing and exits 4.\n",
	.example = "nbctl reload --dry-run\nnbctl reload --confirm 30 && nbctl confirm",
	.options = {
		CHANGE_OPTIONS,
		[VALUE_QUIET] = { "quiet", OPTION_FLAG, NULL,
				  "print nothing that the daemon's log says" },
	},
	.run = run_reload,
};

static int run_set(struct ctl *ctl)
{
	return change(ctl, "Set",
		      json_pack("{s:s, s:o}", "listener", ctl->words[0], "settings",
				field_words(&ctl->words[1])));
}

const struct command command_set = {
	.name = "set",
	.arguments = "LISTENER KEY=VALUE...",
	.summary = "change a listener without a file, until the next reload",
	.details =
		"By the same transaction as a reload: all keys or nothing.  `nbctl status` says that\n"
		"it is in no file, and `nbctl config --diff` prints what to put into one: the next\n"
		"reload or start drops it, and says so.\n",
	.example = "nbctl set echo-epoll max-connections=100 idle-timeout=30s\n"
		   "nbctl set echo-uring sqpoll=yes --confirm 30",
	.options = { CHANGE_OPTIONS },
	.words_min = 2,
	.words_max = 65,
	.run = run_set,
};

static int run_add(struct ctl *ctl)
{
	return change(ctl, "Add", json_pack("{s:s}", "spec", ctl->words[0]));
}

const struct command command_add = {
	.name = "add",
	.arguments = "SERVICE[,KEY=VALUE]...",
	.summary = "add a listener without a file, until the next reload",
	.details = "The words are those of `nbserved --run`; the rest is as for `nbctl set`.\n",
	.example = "nbctl add echo,engine=epoll,port=7100\n"
		   "nbctl add http,engine=all --dry-run",
	.options = { CHANGE_OPTIONS },
	.words_min = 1,
	.words_max = 1,
	.run = run_add,
};

static int run_remove(struct ctl *ctl)
{
	return change(ctl, "Remove", json_pack("{s:s}", "listener", ctl->words[0]));
}

const struct command command_remove = {
	.name = "remove",
	.arguments = "LISTENER",
	.summary = "remove a listener that `nbctl add` has made",
	.details =
		"Its open connections are served to their end, at most for drain-timeout.  One of a file\n"
		"stays: `nbctl drain` stops it for a while.\n",
	.example = "nbctl remove echo-epoll-2 --dry-run\nnbctl remove echo-epoll-2",
	.options = { CHANGE_OPTIONS },
	.words_min = 1,
	.words_max = 1,
	.run = run_remove,
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
