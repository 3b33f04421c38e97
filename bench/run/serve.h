/* The daemons of `nbbench run`: a new one for each round.  So
 * effects that are constant within one process, such as the place of its memory, become noise
 * between rounds and are averaged.  With several builds there is one daemon of each in each
 * round.  Main thread. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "ctl.h"
#include "served.h"

enum { SERVE_BUILDS_MAX = 8 };

struct serve {
	struct ctl *ctl; /* whose specs, SERVED_SPECS_MAX at most, are served */
	struct serve_build {
		char *name; /* NULL: there is one build, without a name */
		char *path; /* of nbserved, with -H on the other host */
	} builds[SERVE_BUILDS_MAX];
	unsigned build_count;
	const struct points *points;
	const struct point *point; /* whose values the specs take */
	pid_t pid;                 /* of the daemon that serves; 0: none */
	bool there;                /* it serves on the other host, with -H */
};

/* builds: NAME=PATH of each, NULL-terminated; NULL: the nbserved beside this program.  CTL_DONE, or
 * CTL_USAGE with the error printed.  serve_fini() in both cases. */
int serve_init(struct serve *s, struct ctl *ctl, char **builds);
void serve_fini(struct serve *s);

/* Starts the daemon of builds[build], and waits until it serves.  CTL_DONE; or the exit status of
 * the daemon, which has printed why. */
int serve_start(struct serve *s, unsigned build);
/* Starts and ends a daemon for each point, if the specs have values of a sweep, so that an
 * invalid value is refused before anything is measured.  Returns as serve_start(). */
int serve_try(struct serve *s);
/* Ends it, and waits until it has ended: its ports and files are free. */
void serve_stop(struct serve *s);
