/* `nbserved --run`: serves listeners of the command line, chooses the control socket, and runs
 * nbctl to show results: see nbserved(8).  Main thread only. */
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#include "sweep.h"

struct config;
struct server;

enum { RUN_SPECS_MAX = 64, RUN_OPTIONS_MAX = 32 };

struct run_mode {
	char **argv;                /* of main() */
	char *specs[RUN_SPECS_MAX]; /* arguments of --run */
	unsigned count;
	/* For `nbctl compare`, with their values; --bench adds two. */
	char *options[RUN_OPTIONS_MAX + 4];
	unsigned option_count;
	struct sweeps sweeps; /* of options */
	const char *at;       /* the host on which it serves, as ssh takes it; NULL: here */
	char **command;       /* the arguments after `--`, NULL-terminated; NULL: none */
	char *page;           /* that --bench has chosen for --html; NULL: none */
	char *file;           /* that --bench makes, and removes at its end; NULL: none */
	/* The rest is private to run.c. */
	struct server *server;
	char directory[PATH_MAX]; /* directory made for the control socket; "": none */
	pid_t child;              /* nbctl; 0: none */
};

/* $TMPDIR, or the other if that is not set or empty. */
const char *run_folder(const char *other);

/* The configuration for specs, with a usable control socket; NULL: failed, and logged. */
struct config *run_config(struct run_mode *run);

/* With a command: runs `nbctl compare`, which starts this program without the command for each
 * round.  Returns nbctl's exit status. */
int run_compare(struct run_mode *run);

/* Without a command, to be called when s serves: prints where.  0, or -errno, logged. */
int run_start(struct run_mode *run, struct server *s);

/* Called for the first signal to end (count 1) and for the second.  True: the server
 * continues until nbctl has shown its results, which a second signal cuts short;
 * false: the server is to end. */
enum { RUN_SIGNALS_MAX = 2 };
struct signalfd_siginfo;
bool run_interrupt(struct run_mode *run, const struct signalfd_siginfo *info, unsigned count);

/* Ends what is still running, and removes the directory and socket of run_config(). */
void run_end(struct run_mode *run);
