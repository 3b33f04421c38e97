/* `nbserved --run`: converts listeners on the command line to the text of a configuration file. */
#pragma once
#include <stdbool.h>
#include <stdio.h>

#include "reason.h"

/* Each of specs is SERVICE[,KEY=VALUE]...: a listener, with keys of its section and of its
 * export's, and in addition `port=N` (default: chosen by the kernel; on 127.0.0.1, or at an
 * `address` without a port) and `export=PATH`.  `engine=all`: a listener for each engine over
 * sockets.  server: lines of the section [server], to which the specs may add `counters`.  The
 * caller frees *ret_text. 0, or -EINVAL with the reason; values are validated later, by
 * config_load_text(). */
int config_run_text(char *const *specs, unsigned count, const char *server, char **ret_text,
		    struct reason *reason);

/* Prints the services, and the engines of each transport. */
void config_run_help(FILE *to);
