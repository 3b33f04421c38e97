/* Files of saved rows, and of their report, on the command line.  Errors are printed. */
#pragma once
#include <stdio.h>

#include "measure.h"
#include "result.h"

/* Prints `PATH: why` for an errno on stderr; returns CTL_USAGE. */
int rows_file_error(const char *path, int error);

/* Writes the rows with operations, one per line.  0 or -errno. */
int rows_write(FILE *to, const struct measures *m);

/* Appends the rows of the file to m; "-": stdin.  Returns an exit code. */
int rows_load(const char *path, struct measures *m);

/* Writes the rows with operations, one per line; path is used in messages.  Returns an exit code.
 */
int rows_save(FILE *to, const char *path, const struct measures *m);

/* Writes the page of the result over what the file had; path is used in messages.  Returns
 * an exit code. */
int rows_report(FILE *to, const char *path, const struct result *result, const struct measures *m);

/* The exit code. */
int rows_gate(enum gate gate);
