/* Time by call chains: samples of the same chain are added up.  A sample first waits:
 * stacks_commit() counts it when the next document of the daemon has shown load, stacks_drop()
 * forgets it if not. Pure. */
#pragma once
#include <stdint.h>

#include "symbols.h"

enum { STACK_FRAMES_MAX = 160 };

struct stack {
	const struct symbol **frames; /* the innermost first; owned */
	unsigned count;
	uint64_t ns, waiting_ns;
};

struct stacks {
	struct stack *list;
	unsigned count;
	unsigned *places; /* a hash table of indices + 1 */
	unsigned place_count;
};

void stacks_free(struct stacks *s);

/* The layer of a chain: that of the innermost function that names one. */
enum layer stack_layer(const struct symbol *const *frames, unsigned count);

/* Adds a sample that waits.  When there are STACKS_MAX different chains, each further one is
 * reduced to the function that names its layer. */
enum { STACKS_MAX = 1 << 15 };
void stacks_add(struct stacks *s, const struct symbol *const *frames, unsigned count, uint64_t ns);
void stacks_commit(struct stacks *s); /* the samples that wait count */
void stacks_drop(struct stacks *s);   /* the samples that wait are forgotten */
/* The time by layer. */
void stacks_layers(const struct stacks *s, uint64_t ret_ns[LAYER_COUNT]);
