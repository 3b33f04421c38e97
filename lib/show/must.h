/* Memory that nbctl cannot do without. */
#pragma once
#include <stdio.h>
#include <stdlib.h>

/* Returns `memory`, which is never NULL then: without memory nbctl ends. */
static inline void *must(void *memory)
{
	if (!memory) {
		fputs("nbctl: out of memory\n", stderr);
		exit(EXIT_FAILURE);
	}
	return memory;
}
