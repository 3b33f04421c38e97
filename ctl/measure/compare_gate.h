/* `compare --against`: finds rows that are worse than saved ones. */
#pragma once
#include "measure.h"
#include "render.h"

/* Rows of both are matched by label, listener, service and operation; both are merged.  A row is
 * worse when its cost is higher, or its rate of requests or operations lower, by more than the
 * noise of either.  Prints each such row in red, and a summary.  True: some are worse. */
bool compare_gate(struct output *out, const struct measures *before, const struct measures *now);
