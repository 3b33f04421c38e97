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
	/* Since look() last returned WATCH_IDLE: the CPU time of the busiest thread, and the
	 * largest part of a CPU that any thread had in some 100 ms; 0: no 100 ms have passed. */
	uint64_t busiest_ns;
	double peak;
};

enum watch_answer {
	WATCH_GO,
	WATCH_IDLE, /* there was no load so far */
	WATCH_END,  /* the measurement has failed: the command is ended, as by SIGTERM */
};

/* What is done while a command runs.  None of its functions may wait. */
struct watcher {
	void *context;
	int (*fd)(const void *context);      /* look() is called when it has input; -1: none */
	int (*wait_ms)(const void *context); /* ... and after this time at the latest */
	enum watch_answer (*look)(void *context, const struct use *use); /* is called often */
	/* With CHILD_PASS: output as it comes.  errors: it is of stderr. */
	void (*output)(void *context, bool errors, const char *data, size_t bytes);
};

enum child_show {
	CHILD_SHOW,            /* its output goes to our stdout and stderr */
	CHILD_SHOW_ON_FAILURE, /* its output is shown on stderr only if it fails */
	CHILD_HIDE,            /* its output is not shown, and its stdin is empty */
	CHILD_PASS,            /* its output goes to the watcher, and its stdin is empty */
};

struct child {
	int status;       /* as of waitpid(); -errno: it could not be started */
	char *output;     /* its stdout, if kept; else NULL */
	uint64_t wall_ns; /* from its start to its end */
	struct use use;   /* at its end; busiest_ns by samples, 0: unknown */
	cpu_set_t cpus;   /* its CPU affinity when last sampled */
	bool timed_out;   /* it was ended, as by SIGTERM, because it ran too long */
};

/* Until child_release_signals(), SIGINT, SIGTERM, SIGQUIT and SIGHUP end the command that runs, and
 * not nbbench.  A second signal kills the command with all that it has started; so does nbbench
 * itself a few seconds after the first.  If no command runs, the second signal ends nbbench.  Main
 * thread.
 */
void child_catch_signals(void);
void child_release_signals(void);

/* The first signal since child_catch_signals(), after which no further command may be started; 0:
 * none has come. */
int child_interrupted(void);

/* Has this child ended?  Does not wait for it: another does, with its status. */
bool child_has_ended(pid_t pid);

/* Runs argv to its end, and kills the processes that it leaves behind.  keep: ret->output gets some
 * CHILD_OUTPUT_MAX bytes of its stdout, also if that is shown.  timeout_ms: the longest that it
 * may run; 0: no limit.  watcher NULL: none.  child_free(ret) afterwards, also if it could not be
 * started. */
enum { CHILD_OUTPUT_MAX = 4 * 1024 * 1024 };
void child_run(char *const *argv, enum child_show show, bool keep, unsigned timeout_ms,
	       const struct watcher *watcher, struct child *ret);
void child_free(struct child *child);
