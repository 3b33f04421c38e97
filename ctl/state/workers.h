/* The documents of GetStats by worker: each element of `listeners` is a worker of one. */
#pragma once
#include <jansson.h>

/* The same document with the names LISTENER/WORKER, so that its elements are told apart
 * as listeners are; `listener` has the name before.  Elements that are no workers stay.
 * A new reference. */
json_t *workers_named(const json_t *stats);
