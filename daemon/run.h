/* `nbserved --run`: serves listeners of the command line without a file, and chooses the control
 * socket: see nbserved(8).  Main thread only. */
#pragma once
#include "runtime.h"

struct config;
struct server;

enum { RUN_SPECS_MAX = 64 };

struct run_mode {
	char **argv;                /* of main() */
	char *specs[RUN_SPECS_MAX]; /* arguments of --run */
	unsigned count;
	char directory[RUNTIME_DIRECTORY_BYTES]; /* made for the control socket; "": none */
};

/* The configuration for specs, with a usable control socket; NULL: failed, and logged. */
struct config *run_config(struct run_mode *run);

/* To be called when s serves: prints where.  0, or -errno, logged. */
int run_start(struct server *s);

/* Removes the directory of run_config(). */
void run_end(struct run_mode *run);
