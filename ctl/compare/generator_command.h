/* COMMAND with its placeholders filled, for each host on which it runs. */
#pragma once
#include "ctl.h"

/* One command for each host of the generator, NULL-terminated as each of them is; to be freed by
 * generator_command_free().  target NULL: no listener is visited.  NULL, with an error printed: the
 * listener lacks a value. */
struct target;
char ***generator_command_fill(const struct ctl *ctl, char *const *argv,
			       const struct target *target);
void generator_command_free(char ***commands);
