/* Runs a command to its end and measures it: output, wall time, CPU time, its busiest thread. */
#pragma once
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum child_show {
	CHILD_SHOW,           /* its output is ours */
	CHILD_SHOW_ON_FAILURE /* held back, and shown on stderr if it fails by itself */
};

struct sampler;

struct child {
	int status;       /* of waitpid(); -errno: it could not be started */
	char *output;     /* its stdout, if that was asked for; else NULL */
	uint64_t wall_ns; /* from its start to its end */
	uint64_t cpu_ns;  /* of it and its children, user and system time */
	uint64_t
		busiest_ns; /* of its busiest thread, from what was seen while it ran; 0: nothing */
	cpu_set_t cpus;     /* where it was allowed to run when last seen */
};

/* keep: *ret->output has up to CHILD_OUTPUT_MAX bytes of its stdout, also when that is shown.
 * sampler: looks meanwhile.  Ctrl-C ends the command and not nbctl: see child_interrupted(). */
enum { CHILD_OUTPUT_MAX = 4 * 1024 * 1024 };
void child_run(char *const *argv, enum child_show show, bool keep, struct sampler *sampler,
	       struct child *ret);
void child_free(struct child *child);

/* SIGINT or SIGTERM has come while a command ran. */
bool child_interrupted(void);
