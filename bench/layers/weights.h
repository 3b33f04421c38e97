/* Time by layer, and by function where no layer is named.  A sample first waits: weights_commit()
 * counts it when the next document of the daemon has shown load, weights_drop() forgets it if not.
 * Pure. */
#pragma once
#include <stdint.h>

#include "symbols.h"

/* Functions that no layer names; the time of further ones is that of the layer alone. */
enum { WEIGHTS_OTHER_MAX = 256 };

struct weights {
	uint64_t ns[LAYER_COUNT], waiting_ns[LAYER_COUNT];
	struct weight {
		const struct symbol *function; /* borrowed; NULL: there was none */
		uint64_t ns, waiting_ns;
	} other[WEIGHTS_OTHER_MAX];
	unsigned other_count;
	unsigned samples, waiting; /* that count, that wait */
};

/* The layer of a chain of functions, the innermost first: that of the first one that names one. */
enum layer weights_layer(const struct symbol *const *frames, unsigned count);

void weights_add(struct weights *w, const struct symbol *const *frames, unsigned count,
		 uint64_t ns);
void weights_commit(struct weights *w);
void weights_drop(struct weights *w);
