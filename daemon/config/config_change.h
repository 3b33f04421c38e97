/* Changes to a running daemon's configuration that are in no file: each is the text of one, which
 * is read behind the files (config_load_again()).  Pure. */
#pragma once
#include "config.h"
#include "reason.h"

/* Sets keys of a listener; settings: KEY=VALUE, `count` of them.  Values are checked when the text
 * is read.  The caller frees *ret_text.  0, or -EINVAL with the reason. */
int config_change_set(const char *listener, const char *const *settings, unsigned count,
		      char **ret_text, struct reason *reason);

/* Adds what `nbserved --run SPEC` would serve, see config_run.h, under names that `in_force` does
 * not have. */
int config_change_add(const struct config *in_force, char *spec, char **ret_text,
		      struct reason *reason);

/* The changes of `in_force` without the section of a listener that one of them has added, and
 * without what was added with it if no listener is left of that.  The caller frees each of
 * ret_texts.  Their number, or -EINVAL with the reason: it is in a file. */
int config_change_remove(const struct config *in_force, const char *listener,
			 char *ret_texts[static CONFIG_CHANGES_MAX], struct reason *reason);

/* Is it from such a change that the configuration has a value? */
bool config_change_made(const struct config *config, struct config_origin origin);
