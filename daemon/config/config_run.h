/* `nbserved --run`: converts listeners on the command line to the text of a configuration file. */
#pragma once
#include <stdbool.h>
#include <stdio.h>

#include "reason.h"

/* Each of specs is SERVICE[,KEY=VALUE]...: a listener, with keys of its section and of its
 * export's, and in addition `port=N` (default: chosen by the kernel; on 127.0.0.1, or at an
 * `address` without a port) and `export=PATH`.  `engine=all`: a listener for each engine over
 * sockets.  server: lines of the section [server].  first: the number of the first listener of a
 * service, from 1, by which their names differ.  The caller frees *ret_text. 0, or -EINVAL with the
 * reason; values are validated later, by config_load_text(). */
int config_run_text(char *const *specs, unsigned count, unsigned first, const char *server,
		    char **ret_text, struct reason *reason);

/* False: value has characters that would end the line or begin a comment in a file. */
bool config_run_fits(const char *value);

/* Prints the services, and the engines of each transport. */
void config_run_help(FILE *to);
