/* Measuring for `nbbench compare`: while COMMAND runs, or in visits.  Includes the signals that end
 * it, the conditions that rows save, and the daemons that `nbbench run` starts. */
#pragma once
#include "compare.h"
#include "measure.h"

/* Appends rows to m, not merged, and sets c->status.  An exit code, with the error printed. */
int measuring_run(struct ctl *ctl, struct compare *c, struct measures *m);
