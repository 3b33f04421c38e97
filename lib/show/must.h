/* Memory that a program cannot do without. */
#pragma once
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Returns `memory`, which is never NULL then: without memory the program ends. */
static inline void *must(void *memory)
{
	if (!memory) {
		fprintf(stderr, "%s: out of memory\n", program_invocation_short_name);
		exit(EXIT_FAILURE);
	}
	return memory;
}
