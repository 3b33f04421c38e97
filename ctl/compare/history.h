/* The history: the newest HISTORY_MAX runs of `nbctl compare`, each a file of saved rows
 * in $XDG_STATE_HOME/nbserved.  A run that cannot be kept does not fail: the user is
 * warned in one line. */
#pragma once
#include <stdio.h>

#include "measure.h"

enum { HISTORY_MAX = 200 };

/* Keeps the rows of the run that has just been measured, before they are merged; nothing if none of
 * them has operations. */
void history_keep(const struct measures *m);

/* Opens a kept run by its name, or the newest one: `last`.  NULL with errno: there is none. */
FILE *history_open(const char *name);
