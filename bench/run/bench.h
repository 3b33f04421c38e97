/* The words of nbbench, as `nbbench echo`: the listeners of each, and the load generators that can
 * drive it, of which the first that is installed is used.  Main thread. */
#pragma once
#include <stdbool.h>

/* Is it one of them, or the name of a generator that measures one? */
bool bench_knows(const char *word);
