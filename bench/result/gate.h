/* Gates: whether rows pass, which decides the exit status.  Pure. */
#pragma once
#include "verdict.h"

enum gate { GATE_PASSED, GATE_FAILED, GATE_UNDECIDED, GATE_UNKNOWN, GATES };
extern const char *const gate_names[GATES]; /* as in JSON, and in words */

/* A row passes unless it may cost more by over `within`. */
enum gate gate_of(const struct verdict *v, double within);
enum gate gate_of_all(const unsigned *counts); /* by how many of each there are */

/* Sets those of pairs and of all that was asked for: the last step of result_new(). */
struct result;
struct result_options;
void gate_set(struct result *r, const struct result_options *o);
