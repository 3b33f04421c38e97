/* The table of `compare`: services one under the other, engines side by side within each load. */
#pragma once
#include "figure.h"
#include "measure.h"
#include "render.h"

/* Columns of the table; COLUMNS_ANSWER: those that answer the question, within 100 columns. */
typedef uint64_t column_set;
#define COLUMNS_ANSWER ((column_set)0)
#define COLUMNS_ALL    UINT64_MAX

/* Adds the column of that name, which is `bytes` long; false: there is none. */
bool compare_columns_add(column_set *set, const char *name, size_t bytes);
/* The names, one after the other; NULL behind the last one.  The meaning is a part of a sentence.
 */
const char *compare_column_name(unsigned i);
struct human compare_column_heading(unsigned i); /* "CPU/op us" */
const char *compare_column_meaning(unsigned i);

/* Prints the rows with operations, grouped by service, label and operation in the order of the
 * rows; the first row of each group is the baseline.  Also names the listeners without
 * operations.  Shows those of the `wanted` columns that have room and content. */
void compare_render(struct output *out, const struct measures *m, column_set wanted);

/* The table as JSON, a new reference: "rows", each as saved plus "derived" with the medians of its
 * visits and their spread; "unavailable", the names and reasons of the listeners that are;
 * "conclusion", the sentences of groups_conclusion(), or null. */
json_t *compare_to_json(const struct measures *m);

/* A cell with the median of a figure, or `-` if it is unknown. */
void compare_figure_cell(struct table *t, const struct measure *row, enum figure figure);
