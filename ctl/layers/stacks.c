/* See stacks.h. */
#include "stacks.h"

#include <stdlib.h>
#include <string.h>

#include "must.h"
#include "util.h"

void stacks_free(struct stacks *s)
{
	for (unsigned i = 0; i < s->count; i++)
		free(s->list[i].frames);
	free(s->list);
	free(s->places);
	*s = (struct stacks){};
}

/* The function that names the layer; count: none does. */
static unsigned naming(const struct symbol *const *frames, unsigned count)
{
	unsigned i = 0;

	while (i < count && frames[i]->layer == LAYER_NONE)
		i++;
	return i;
}

enum layer stack_layer(const struct symbol *const *frames, unsigned count)
{
	unsigned i = naming(frames, count);

	return i < count ? frames[i]->layer : LAYER_OTHER;
}

/* ---- Adding up ---- */

static unsigned hash(const struct symbol *const *frames, unsigned count)
{
	uint64_t h = count;

	for (unsigned i = 0; i < count; i++)
		h = (h ^ ((uintptr_t)frames[i] >> 4)) * 0x9e3779b97f4a7c15;
	return (unsigned)(h >> 32);
}

/* The place of the chain in the hash table, or the free one where it would be. */
static unsigned *place_of(const struct stacks *s, const struct symbol *const *frames,
			  unsigned count)
{
	unsigned mask = s->place_count - 1, at = hash(frames, count) & mask;

	for (; s->places[at]; at = (at + 1) & mask) {
		const struct stack *stack = &s->list[s->places[at] - 1];

		if (stack->count == count &&
		    (!count || !memcmp(stack->frames, frames, count * sizeof(*frames))))
			break;
	}
	return &s->places[at];
}

/* Doubles the places, a power of two, of which a quarter may be used. */
static void grow(struct stacks *s)
{
	s->place_count = MAX(2 * s->place_count, 256U);
	s->list = must(reallocarray(s->list, s->place_count / 4, sizeof(*s->list)));
	free(s->places);
	s->places = must(calloc(s->place_count, sizeof(*s->places)));
	for (unsigned i = 0; i < s->count; i++)
		*place_of(s, s->list[i].frames, s->list[i].count) = i + 1;
}

static struct stack *stack_of(struct stacks *s, const struct symbol *const *frames, unsigned count)
{
	struct stack *new;
	unsigned *place;

	if (s->count == s->place_count / 4)
		grow(s);
	place = place_of(s, frames, count);
	if (*place)
		return &s->list[*place - 1];
	new = &s->list[s->count++];
	*place = s->count;
	*new = (struct stack){ .count = count, .frames = must(calloc(count + 1, sizeof(*frames))) };
	for (unsigned i = 0; i < count; i++) /* not memcpy(): without frames `frames` may be NULL */
		new->frames[i] = frames[i];
	return new;
}

void stacks_add(struct stacks *s, const struct symbol *const *frames, unsigned count, uint64_t ns)
{
	if (s->count >= STACKS_MAX) {
		unsigned i = naming(frames, count);

		frames += i < count ? i : 0;
		count = MIN(count, 1U);
	}
	stack_of(s, frames, count)->waiting_ns += ns;
}

void stacks_commit(struct stacks *s)
{
	for (unsigned i = 0; i < s->count; i++) {
		s->list[i].ns += s->list[i].waiting_ns;
		s->list[i].waiting_ns = 0;
	}
}

void stacks_drop(struct stacks *s)
{
	for (unsigned i = 0; i < s->count; i++)
		s->list[i].waiting_ns = 0;
}

void stacks_layers(const struct stacks *s, uint64_t ret_ns[LAYER_COUNT])
{
	memset(ret_ns, 0, LAYER_COUNT * sizeof(*ret_ns));
	for (unsigned i = 0; i < s->count; i++)
		ret_ns[stack_layer(s->list[i].frames, s->list[i].count)] += s->list[i].ns;
}
