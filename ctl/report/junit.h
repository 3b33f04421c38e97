/* JUnit's XML of what a gate found, for CI systems: a test case for each row and limit, each row
 * beside a saved one, and each row of a pair.  Pure. */
#pragma once
#include <stdio.h>

#include "against.h"
#include "limit.h"

/* What the gates found; NULL: there is no such gate. */
struct junit {
	const struct limits *limits;
	const struct against *against;
	const struct groups *pairs;
	bool undecided_passes;
	int status; /* of measuring, if that failed, which is a case of its own; 0: it did not */
};

void junit_write(FILE *to, const struct junit *found);
