/* `nbserved --run`: listeners from the command line, as the configuration file that says the same.
 */
#pragma once
#include "reason.h"

/* Each of specs is SERVICE[,KEY=VALUE]...: a listener, with the keys of its section and of that of
 * its export, and beside them `port=N` (on 127.0.0.1; without it the kernel chooses) and
 * `export=PATH`.  `engine=all`: a listener for each engine over sockets.  server: lines of the
 * section [server].  *ret_text is to be freed; 0, or -EINVAL with the reason.  What the values are
 * worth config_load_text() says. */
int config_run_text(char *const *specs, unsigned count, const char *server, char **ret_text,
		    struct reason *reason);
