/* Runs a command to its end and measures it: output, wall time, CPU time, its busiest thread. */
#pragma once
#include <jansson.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CPU time of a command and all that it starts. */
struct use {
	uint64_t cpu_ns; /* since its start */
	/* Of its busiest thread, since look() last said that there was no load: its CPU time, and
	 * the largest part of a CPU that one had in some 100 ms; 0: there were no 100 ms. */
	uint64_t busiest_ns;
	double peak;
};

enum watch_said {
	WATCH_GO,
	WATCH_IDLE, /* there was no load so far */
	WATCH_END,  /* what the command is run for has failed: it is ended, as by SIGTERM */
};

/* What is done while a command runs.  None of its functions may wait. */
struct watcher {
	void *context;
	int (*fd)(const void *context);      /* to be looked at when there is input; -1: none */
	int (*wait_ms)(const void *context); /* ... or after so long */
	enum watch_said (*look)(void *context, const struct use *use); /* is called often */
	/* With CHILD_PASS: output as it comes.  errors: it is of stderr. */
	void (*output)(void *context, bool errors, const char *data, size_t bytes);
	bool link; /* this host's network interfaces are looked at, too */
};

enum child_show {
	CHILD_SHOW,            /* its output goes to our stdout and stderr */
	CHILD_SHOW_ON_FAILURE, /* its output is shown on stderr only if it fails */
	CHILD_PASS,            /* its output goes to the watcher, and its stdin is empty */
};

struct child {
	int status;       /* as of waitpid(); -errno: it could not be started */
	char *output;     /* its stdout, if kept; else NULL */
	uint64_t wall_ns; /* from its start to its end */
	struct use use;   /* at its end; busiest_ns by samples, 0: unknown */
	cpu_set_t cpus;   /* its CPU affinity when last sampled */
	bool timed_out;   /* it was ended, as by SIGTERM, because it ran too long */
	json_t *link;     /* see link_watch_end(); NULL: unknown, or it was not to be looked at */
};

/* From here to child_release_signals() SIGINT, SIGTERM, SIGQUIT and SIGHUP end a command that runs,
 * and not nbctl.  The second one, or a few seconds, kills the command with all that it started; the
 * second one kills nbctl if no command runs.  Main thread. */
void child_catch_signals(void);
void child_release_signals(void);

/* The first signal that came since child_catch_signals(): no command is to be begun; 0: none. */
int child_interrupted(void);

/* Runs argv to its end, and kills what it leaves behind.  keep: *ret->output gets up to
 * CHILD_OUTPUT_MAX bytes of its stdout, also if that is shown.
 * timeout_ms: it may run that long; 0: for ever. */
enum { CHILD_OUTPUT_MAX = 4 * 1024 * 1024 };
void child_run(char *const *argv, enum child_show show, bool keep, unsigned timeout_ms,
	       const struct watcher *watcher, struct child *ret);
void child_free(struct child *child);
