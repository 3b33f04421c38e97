/* `nbserved --bench WORD`: a whole comparison by --run, chosen for the user.  Main thread. */
#pragma once
#include <stdio.h>

#include "run.h"

#define BENCH_DEFAULT "echo"

/* Completes *run, which has the user's options of comparing: listeners, command, CPUs, page, and
 * where the file of a disk is made.  0, or -EINVAL or -ENOENT (no generator is installed) with the
 * error printed. */
int bench_prepare(struct run_mode *run, const char *word);

/* Removes the file, and prints where the page is, if the comparison wrote one.  status: of
 * run_compare(). */
void bench_end(const struct run_mode *run, int status);

/* A table of the words, and with which generator each would run. */
void bench_help(FILE *to);
