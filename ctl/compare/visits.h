/* `nbctl compare` with placeholders like `{port}` in the command: runs the command against one
 * listener after the other, in several rounds whose order changes, so that other load of the host
 * affects all listeners alike. */
#pragma once
#include <stdbool.h>

#include "ctl.h"
#include "measure.h"
#include "targets.h"

enum { VISITS_TIMEOUT_MS = 600 * 1000 };

struct conditions;
struct link_speeds;
struct points;
struct rounds;
struct serve;
struct visits_options {
	const struct points *points;
	unsigned timeout_ms; /* of a visit */
	struct conditions *conditions;
	struct serve *serve; /* starts the daemons; NULL: one runs already */
	struct targets_of listeners;
	bool paired;           /* each second listener is compared with the one before it */
	bool softirq;          /* count softirqs by port */
	struct layers *layers; /* take samples by layer; NULL: do not */
	const struct link_speeds *links; /* of --link */
	bool quiet; /* also hide output of the command that was not recognised */
};

/* Runs the points' commands against the listeners that ctl->words names (none: all that serve), and
 * appends a row per operation and visit to m.  Prints its progress on stderr if that is a terminal.
 * A listener whose visit runs out of time is not visited again, and named as not compared.  Returns
 * an exit code; *ret_status: the first nonzero status of the command.  After a failure or Ctrl-C, m
 * has the rows measured before. */
int visits_run(struct ctl *ctl, const struct visits_options *options, struct rounds *rounds,
	       struct measures *m, int *ret_status);

/* Sets the row's generator from the output and times of a run, and its links. */
struct generator_run;
void visits_set_generator(struct measure *row, char *const *argv, const struct generator_run *run,
			  const struct link_speeds *links);
