/* Runs a command to its end and measures it: output, wall time, CPU time, its busiest thread. */
#pragma once
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler.h"

enum child_show {
	CHILD_SHOW,           /* its output goes to our stdout and stderr */
	CHILD_SHOW_ON_FAILURE /* its output is shown on stderr only if it fails */
};

struct child {
	int status;       /* as of waitpid(); -errno: it could not be started */
	char *output;     /* its stdout, if kept; else NULL */
	uint64_t wall_ns; /* from its start to its end */
	struct use use;   /* at its end; busiest_ns by samples, 0: unknown */
	cpu_set_t cpus;   /* its CPU affinity when last sampled */
	bool timed_out;   /* it was ended, as by SIGTERM, because it ran too long */
};

/* From here to child_release_signals() SIGINT, SIGTERM, SIGQUIT and SIGHUP end a command that runs,
 * and not nbctl.  The second one, or a few seconds, kills the command with all that it started; the
 * second one kills nbctl if no command runs.  Main thread. */
void child_catch_signals(void);
void child_release_signals(void);

/* The first signal that came since child_catch_signals(): no command is to be begun; 0: none. */
int child_interrupted(void);

/* Runs argv to its end, and kills what it leaves behind.  keep: *ret->output gets up to
 * CHILD_OUTPUT_MAX bytes of its stdout, also if that is shown.  sampler takes samples meanwhile.
 * timeout_ms: it may run that long; 0: for ever. */
enum { CHILD_OUTPUT_MAX = 4 * 1024 * 1024 };
void child_run(char *const *argv, enum child_show show, bool keep, unsigned timeout_ms,
	       struct sampler *sampler, struct child *ret);
void child_free(struct child *child);
