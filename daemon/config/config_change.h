/* Changes that commands have made to a running daemon's configuration.  They are in no file: each
 * is the text of one, which is read after the files (config_load_again()).  Pure. */
#pragma once
#include "config.h"
#include "reason.h"

/* Sets keys of a listener; settings: KEY=VALUE, `count` of them.  Values are checked when the text
 * is read.  The caller frees *ret_text.  0, or -EINVAL with the reason. */
int config_change_set(const char *listener, const char *const *settings, unsigned count,
		      char **ret_text, struct reason *reason);

/* Adds what `nbserved --run SPEC` would serve, see config_run.h, under names that
 * `in_force` does not have. */
int config_change_add(const struct config *in_force, char *spec, char **ret_text,
		      struct reason *reason);

/* The changes of `in_force` without the section of a listener that one of them has added; if no
 * listener is left of that change, also without its other sections.  The caller frees each of
 * ret_texts.  Returns their number, or -EINVAL with the reason: the listener is in a file. */
int config_change_remove(const struct config *in_force, const char *listener,
			 char *ret_texts[static CONFIG_CHANGES_MAX], struct reason *reason);

/* Does a value with this origin come from a change? */
bool config_change_made(const struct config *config, struct config_origin origin);
