/* The command line of nbserved.  Main thread. */
#pragma once
#include <stdbool.h>

#include "run.h"

#define DEFAULT_CONFIG "/etc/nbserved/nbserved.ini"

enum action {
	ACTION_SERVE,
	ACTION_CHECK,
	ACTION_DUMP,
	ACTION_DUMP_KEYS,
	ACTION_DOCTOR,
};

struct options {
	const char *config; /* NULL: not given */
	enum action action;
	bool json;
	struct run_mode run; /* count 0: without --run */
};

/* Reads argv into *o, which is all zero.  0, or -EINVAL with the error printed; --help and its like
 * end the process. */
int options_parse(struct options *o, int argc, char **argv);

/* Flushes stdout; the exit status of actions that print.  Reports errors, as of a full disk. */
int options_finish_output(void);
