/* The output of a command on another host: shown as it comes, and kept. */
#pragma once
#include <stdbool.h>
#include <stdio.h>

#include "kept.h"

struct far_output {
	const char *host;    /* printed before each line; NULL: there is only one host */
	bool show;           /* on stdout and stderr */
	struct kept kept[2]; /* of its stdout, and of its stderr */
	struct kept line[2]; /* the part of a line that is not shown until it is whole */
};

/* errors: of its stderr. */
void far_output_add(struct far_output *o, bool errors, const char *text);
void far_output_end(struct far_output *o); /* there will be no more */

/* What is kept of its stdout. */
const char *far_output_text(const struct far_output *o);
/* Prints what is kept, with the host before each line. */
void far_output_print(const struct far_output *o, bool errors, FILE *to);
void far_output_free(struct far_output *o);
