/* Runs of `nbctl compare` that are kept, each as a file of saved rows in
 * $XDG_STATE_HOME/nbserved: the newest HISTORY_MAX.  Nothing here fails a run: what cannot be kept
 * is a warning of one line. */
#pragma once
#include <stdio.h>

#include "measure.h"

enum { HISTORY_MAX = 200 };

/* Keeps rows that were just measured, not merged, if they have operations. */
void history_keep(const struct measures *m);

/* Opens a kept run by its name, or the newest one: `last`.  NULL with errno: there is none. */
FILE *history_open(const char *name);
