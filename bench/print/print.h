/* A result on the terminal, services one under the other, engines side by side within each load;
 * and as JSON. */
#pragma once
#include "render.h"
#include "result.h"

/* Columns of the table; COLUMNS_ANSWER: those that answer the question, within 100 columns. */
typedef uint64_t column_set;
#define COLUMNS_ANSWER ((column_set)0)
#define COLUMNS_ALL    UINT64_MAX

/* Adds the column of that name, which is `bytes` long; false: there is none. */
bool print_columns_add(column_set *set, const char *name, size_t bytes);
/* The names, one after the other; NULL behind the last one.  The meaning is a part of a sentence.
 */
const char *print_column_name(unsigned i);
struct human print_column_heading(unsigned i); /* "CPU/op us" */
const char *print_column_meaning(unsigned i);

/* Prints the groups, of each row those of the `wanted` columns that have room and content, with the
 * warnings; names the listeners without operations, which only m knows. */
void print_result(struct output *out, const struct result *r, const struct measures *m,
		  column_set wanted);
/* The sentences at the end of a run; nothing, if nothing is judged. */
void print_answer(struct output *out, const struct result *r);
/* The gates, which decide the exit status. */
void print_gates(struct output *out, const struct result *r);

/* The parts that print_result() and print_answer() have; each prints nothing if it has nothing.
 * Rows beside saved ones: the table, what changed, and the summary. */
void print_then(struct output *out, const struct result *r);
/* A generator on several hosts: a row for each host. */
void print_hosts(struct output *out, const struct result *r);

/* Schema 3, struct result field by field, which nbbench(1) lists: a new reference.  m has the rows
 * without operations, too. */
json_t *print_json(const struct result *r, const struct measures *m);

/* A part of it, a new reference: the names of listeners without operations. */
json_t *print_idle(const struct measures *m);
