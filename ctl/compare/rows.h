/* Files of saved rows, as the user names them: what goes wrong is told. */
#pragma once
#include <stdio.h>

#include "measure.h"

/* `PATH: why` of an errno on stderr; returns CTL_USAGE. */
int rows_file_error(const char *path, int error);

/* Appends the rows of the file; "-": of stdin.  An exit code. */
int rows_load(const char *path, struct measures *m);

/* Writes those that did operations, one a line; path is for messages.  An exit code. */
int rows_save(FILE *to, const char *path, const struct measures *m);
