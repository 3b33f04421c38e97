/* `compare --against`: what got worse than saved rows say. */
#pragma once
#include "measure.h"
#include "render.h"

/* Rows of both are matched by label, listener, service and operation; both are merged.  A row is
 * worse when its cost is higher, or its rate of requests or operations lower, by more than the
 * noise of either.  Prints a line for each that is, in red, and one for all.  True: some are. */
bool compare_gate(struct output *out, const struct measures *before, const struct measures *now);
