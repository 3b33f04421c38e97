/* A result on the terminal, services one under the other, engines side by side within each load;
 * and as JSON. */
#pragma once
#include "render.h"
#include "result.h"

/* Prints the groups with the warnings, and names the listeners without operations, which only m
 * knows.  The columns are those that answer the question, within 100 characters; wide: all that
 * have room and content. */
void print_result(struct output *out, const struct result *r, const struct measures *m, bool wide);
/* The sentences at the end of a run; nothing, if nothing is judged. */
void print_answer(struct output *out, const struct result *r);
/* The gates, which decide the exit status. */
void print_gates(struct output *out, const struct result *r);

/* The parts that print_result() and print_answer() have; each prints nothing if it has nothing.
 * Rows beside saved ones: the table, what changed, and the summary. */
void print_against(struct output *out, const struct result *r);
/* Schema 3, struct result field by field, which nbbench(1) lists: a new reference.  m has the rows
 * without operations, too. */
json_t *print_json(const struct result *r, const struct measures *m);

/* A part of it, a new reference: the names of listeners without operations. */
json_t *print_idle(const struct measures *m);
