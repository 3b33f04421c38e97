/* The points of `compare --sweep`: one for each combination of its values, or a single one without
 * it.  Each has its command and its label. */
#pragma once
#include "ctl.h"
#include "sweep.h"

struct point {
	char *label;    /* of its rows: that of --label, and the values */
	char **command; /* NULL-terminated, with placeholders such as {port} */
	json_t *sweep;  /* see conditions.h; NULL: there is no --sweep */
};

struct points {
	struct sweeps sweeps;
	struct point *list;
	unsigned count;
};

/* sweeps: the values of --sweep, NULL-terminated; label: of --label; NULL: not given.  CTL_DONE, or
 * CTL_USAGE with the error printed.  points_fini() in both cases. */
int points_init(struct points *p, struct ctl *ctl, char **sweeps, const char *label);
void points_fini(struct points *p);
