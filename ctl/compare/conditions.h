/* The conditions of a measurement: host, versions, the listener's configuration, the command, where
 * they ran.  Each row keeps its own, so that saved rows of another machine tell of that one:
 *
 * { "date": "2026-11-22T05:28:03Z", "nbserved": "0.1.0", "nbctl": "0.1.0",
 *   "host": { "kernel": ..., see host_describe() }, "listener": { "engine": "epoll", ... the keys
 *   that are not default }, "exports": { "disk0": {...} }, "listener_cpus": "0",
 *   "command": ["redis-benchmark", ...], "generator_cpus": "1" } */
#pragma once
#include <sys/types.h>

#include "ctl.h"
#include "measure.h"

struct child;
struct conditions {
	json_t *common; /* conditions that do not change while nbctl runs */
	json_t *config; /* of GetConfig */
	pid_t pid;      /* the daemon's */
};

/* Asks the host and the daemon.  CTL_DONE, or an exit code, told; *ret is to be freed either way.
 */
int conditions_init(struct conditions *ret, struct ctl *ctl);
void conditions_fini(struct conditions *c);

/* Gives them to the rows of m from `first` on, which were measured just now.  argv: the command,
 * NULL-terminated, and what became of it; NULL: none was run. */
void conditions_set(const struct conditions *c, struct measures *m, unsigned first,
		    char *const *argv, const struct child *child);
