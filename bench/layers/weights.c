/* See weights.h. */
#include "weights.h"

#include <stddef.h>

enum layer weights_layer(const struct symbol *const *frames, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (frames[i]->layer != LAYER_NONE)
			return frames[i]->layer;
	return LAYER_OTHER;
}

/* NULL: there are too many. */
static struct weight *other_of(struct weights *w, const struct symbol *function)
{
	unsigned i = 0;

	while (i < w->other_count && w->other[i].function != function)
		i++;
	if (i == WEIGHTS_OTHER_MAX)
		return NULL;
	if (i == w->other_count)
		w->other[w->other_count++] = (struct weight){ .function = function };
	return &w->other[i];
}

void weights_add(struct weights *w, const struct symbol *const *frames, unsigned count, uint64_t ns)
{
	enum layer layer = weights_layer(frames, count);
	struct weight *other = layer == LAYER_OTHER ? other_of(w, count ? frames[0] : NULL) : NULL;

	w->waiting_ns[layer] += ns;
	w->waiting++;
	if (other)
		other->waiting_ns += ns;
}

void weights_commit(struct weights *w)
{
	for (unsigned i = 0; i < LAYER_COUNT; i++)
		w->ns[i] += w->waiting_ns[i];
	for (unsigned i = 0; i < w->other_count; i++)
		w->other[i].ns += w->other[i].waiting_ns;
	w->samples += w->waiting;
	weights_drop(w);
}

void weights_drop(struct weights *w)
{
	for (unsigned i = 0; i < LAYER_COUNT; i++)
		w->waiting_ns[i] = 0;
	for (unsigned i = 0; i < w->other_count; i++)
		w->other[i].waiting_ns = 0;
	w->waiting = 0;
}
