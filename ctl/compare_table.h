/* The table of `compare`: services one under the other, engines side by side within each load. */
#pragma once
#include "measure.h"
#include "render.h"

/* Rows that did operations, grouped by service, label and operation in the order in which they
 * come; in each group the first row is the baseline.  Says which listeners did nothing. */
void compare_render(struct output *out, const struct measures *m);

/* The same as JSON: {"rows":[...]}, each row as saved plus "derived"; and of the listeners that are
 * unavailable {"unavailable":[...]}, their names and reasons.  A new reference. */
json_t *compare_to_json(const struct measures *m, const json_t *unavailable);

/* The engine with what a listener was configured for: `io_uring+sqpoll`. */
void compare_engine_text(const struct measure *row, char *text, size_t bytes);

/* CPU per operation means little when the operations of a group differ in size (a receive batch of
 * discard is whatever arrived): then rows are compared by CPU per byte. */
bool compare_by_bytes(struct measure *const *rows, unsigned count);
