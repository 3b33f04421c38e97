/* Files of saved rows, and of their report, on the command line.  Errors are printed. */
#pragma once
#include <stdio.h>

#include "measure.h"
#include "result.h"

/* Appends the rows of the file to m; "-": stdin.  Returns an exit code. */
int rows_load(const char *path, struct measures *m);

/* Opens a file to be written at the end, so that a mistake shows before anything runs.  *ret NULL:
 * no path.  An exit code. */
struct rows_file {
	const char *path;
	FILE *file;
	bool made; /* it was not there before */
};
int rows_open(struct rows_file *ret, const char *path);
/* Removes it if it was made and nothing was written to it. */
void rows_close(struct rows_file *f);

/* Appends the rows with operations, one per line.  Returns an exit code. */
int rows_save(struct rows_file *f, const struct measures *m);

/* Writes the page of the result, or with m NULL its picture as SVG, over what the file had. Returns
 * an exit code. */
int rows_report(struct rows_file *f, const struct result *result, const struct measures *m);

/* The exit code for this gate. */
int rows_gate(enum gate gate);
