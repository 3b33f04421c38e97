/* Call chains as a tree of functions, the outermost first: the form in which saved rows have them,
 * and out of which flame graphs and folded stacks are made.  Pure. */
#pragma once
#include <stdio.h>

#include "measure.h"
#include "stacks.h"

struct stack_tree {
	/* { FUNCTION: { "": weight of the chains that end there, FUNCTION: { ... } } } */
	json_t *calls;
	json_t *functions; /* { FUNCTION: name of its layer }: those that name one */
};

void stack_tree_init(struct stack_tree *t);
void stack_tree_free(struct stack_tree *t);

/* Adds the chains of s with their committed time. */
void stack_tree_add(struct stack_tree *t, const struct stacks *s);

/* The chains of all visits of a row that were sampled. */
void stack_tree_add_row(struct stack_tree *t, const struct measure *row);

bool stack_tree_is_empty(const struct stack_tree *t); /* nothing was sampled */

/* The weight of the chains through a function, and of those that end there. */
uint64_t stack_tree_weight(const json_t *function);
uint64_t stack_tree_own_weight(const json_t *function);

/* The layer that a function names, or else `outer`, that of its caller. */
enum layer stack_tree_layer(const struct stack_tree *t, const char *name, enum layer outer);

/* Folded stacks: a line `outermost;...;innermost weight` for each chain. */
void stack_tree_fold(const struct stack_tree *t, FILE *to);
