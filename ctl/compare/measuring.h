/* Measuring for `nbctl compare`: over an interval, while COMMAND runs, or in visits.  With it come
 * the signals, the conditions, and daemons that are started for it. */
#pragma once
#include "compare_options.h"
#include "measure.h"

/* Appends rows to m, not merged, and sets c->status.  An exit code, with the error printed. */
int measuring_run(struct ctl *ctl, struct compare *c, struct measures *m);
