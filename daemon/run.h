/* `nbserved --run`: listeners from the command line, their control socket found or made, and nbctl
 * to show what they did: see nbserved(8).  Main thread only. */
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

struct config;
struct server;

enum { RUN_SPECS_MAX = 64, RUN_OPTIONS_MAX = 32 };

struct run_mode {
	char *specs[RUN_SPECS_MAX]; /* arguments of --run */
	unsigned count;
	char *options[RUN_OPTIONS_MAX]; /* for `nbctl compare`, with their values */
	unsigned option_count;
	char **command; /* the words behind `--`, NULL-terminated; NULL: none */
	/* The rest is run.c's own. */
	struct server *server;
	char directory[PATH_MAX]; /* of the control socket, if it was made for it; else "" */
	pid_t child;              /* nbctl; 0: none */
	int status;               /* exit status of the command */
};

/* The configuration that specs stand for, with a control socket that can be had; NULL, logged. */
struct config *run_config(struct run_mode *run);

/* When s serves: says where, and starts `nbctl compare` with the command, if there is one.  0 or
 * -errno, logged. */
int run_start(struct run_mode *run, struct server *s);

/* A signal to end has come.  True: it is taken care of, the server is to go on until nbctl has
 * shown what there is; false: the server is to drain. */
bool run_interrupt(struct run_mode *run);

/* Removes what run_config() made. */
void run_end(struct run_mode *run);
