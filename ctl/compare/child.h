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
};

/* From here to child_release_signals() SIGINT, SIGTERM and SIGQUIT end a command that runs, and not
 * nbctl; the second one kills the command, or nbctl if none runs.  Main thread. */
void child_catch_signals(void);
void child_release_signals(void);

/* The signal that came since child_catch_signals(): no command is to be begun; 0: none. */
int child_interrupted(void);

/* Runs argv to its end.  keep: *ret->output gets up to CHILD_OUTPUT_MAX bytes of its stdout, also
 * if that is shown. sampler takes samples meanwhile. */
enum { CHILD_OUTPUT_MAX = 4 * 1024 * 1024 };
void child_run(char *const *argv, enum child_show show, bool keep, struct sampler *sampler,
	       struct child *ret);
void child_free(struct child *child);
