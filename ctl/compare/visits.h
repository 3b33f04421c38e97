/* `nbctl compare` with `{port}` and its like in the command: the command visits one listener after
 * the other, several rounds, in an order that changes from round to round, so that whatever else
 * the host does meets all of them. */
#pragma once
#include <stdbool.h>

#include "ctl.h"
#include "measure.h"

enum { VISITS_REPEAT = 3, VISITS_REPEAT_MAX = 1000 };

/* Does a word of argv (NULL-terminated) have a placeholder? */
bool visits_wanted(char *const *argv);

struct conditions;
struct softirq;
struct visits_options {
	const char *label;
	unsigned repeat;
	const struct conditions *conditions;
	struct softirq *softirq; /* NULL: not asked for */
	bool quiet;              /* also hide what of the command's output was not understood */
};

/* Runs ctl->rest against the listeners that ctl->words names (none: all that serve), and appends
 * a row per operation and visit to m.  Says on stderr what it does, on a terminal.  An exit code;
 * *ret_status is the command's first that was not 0.  What was measured before a failure or Ctrl-C
 * is in m. */
int visits_run(struct ctl *ctl, const struct visits_options *options, struct measures *m,
	       int *ret_status);

/* Fills what a child tells into the row's generator. */
struct child;
void visits_set_generator(struct measure *row, char *const *argv, const struct child *child);
