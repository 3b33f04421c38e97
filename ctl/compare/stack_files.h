/* `nbctl compare --stacks FOLDER`: the folded stacks, for other tools, and the flame graph of each
 * listener that was sampled.  Errors are printed; the results are exit codes. */
#pragma once
#include "ctl.h"
#include "measure.h"

/* Makes the folder if it is missing: before anything runs. */
int stack_files_open(const char *folder);

/* Writes the files of the rows, which are merged, and says so on `out`. */
int stack_files_save(const char *folder, const struct measures *m, struct output *out);
