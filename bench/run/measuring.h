/* Measuring for `nbbench compare`: while COMMAND runs, or in visits.  Includes the signals that end
 * it, the conditions that rows save, and the daemons that `nbbench run` starts. */
#pragma once
#include "compare_options.h"
#include "measure.h"

/* Appends rows to m, not merged, and sets c->status.  An exit code, with the error printed. */
int measuring_run(struct ctl *ctl, struct compare *c, struct measures *m);

/* With placeholders like `{port}` in the command (visits.c): runs the points' commands against one
 * listener after the other (those that ctl->words names; none: all that serve), in several rounds
 * whose order changes, so that other load of the host affects all listeners alike.  Appends a row
 * per operation and visit to m.  Prints its progress on stderr if that is a terminal.  A listener
 * whose visit runs out of time is not visited again, and named as not compared.  Returns an exit
 * code; *ret_status: the first nonzero status of the command.  After a failure or Ctrl-C, m has the
 * rows measured before. */
struct conditions;
int visits_run(struct ctl *ctl, struct compare *c, struct conditions *conditions,
	       struct measures *m, int *ret_status);

/* Sets the row's generator from the output and times of a run. */
struct generator_run;
void visits_set_generator(struct measure *row, char *const *argv, const struct generator_run *run);
