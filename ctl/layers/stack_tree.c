/* See stack_tree.h. */
#include "stack_tree.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "printable.h"

static const char OWN[] = ""; /* no function has this name */

void stack_tree_init(struct stack_tree *t)
{
	*t = (struct stack_tree){ json_object(), json_object() };
}

void stack_tree_free(struct stack_tree *t)
{
	json_decref(t->calls);
	json_decref(t->functions);
	*t = (struct stack_tree){ NULL, NULL };
}

bool stack_tree_is_empty(const struct stack_tree *t)
{
	return stack_tree_weight(t->calls) == 0;
}

/* ---- Adding ---- */

/* The callee of that name, which is added if it is missing.  Names come from ELF files, and one
 * that is not UTF-8 cannot be saved as JSON. */
static json_t *callee(json_t *function, const char *name)
{
	json_t *found = json_object_get(function, name);

	if (json_is_object(found))
		return found;
	if (!*name || json_object_set_new(function, name, json_object()) < 0)
		return callee(function, "[unknown]");
	return json_object_get(function, name);
}

static void add_weight(json_t *function, uint64_t weight)
{
	weight += (uint64_t)json_integer_value(json_object_get(function, OWN));
	json_object_set_new(function, OWN, json_integer((json_int_t)weight));
}

void stack_tree_add(struct stack_tree *t, const struct stacks *s)
{
	for (unsigned i = 0; i < s->count; i++) {
		const struct stack *stack = &s->list[i];
		json_t *at = t->calls;

		for (unsigned j = stack->count; j-- > 0 && stack->ns;) {
			const struct symbol *symbol = stack->frames[j];

			at = callee(at, symbol->name);
			if (symbol->layer != LAYER_NONE)
				json_object_set_new(t->functions, symbol->name,
						    json_string(layer_infos[symbol->layer].name));
		}
		if (stack->ns)
			add_weight(at == t->calls ? callee(at, OWN) : at, stack->ns);
	}
}

static void merge(json_t *into, const json_t *from)
{
	const char *name;
	json_t *function;

	if (stack_tree_own_weight(from))
		add_weight(into, stack_tree_own_weight(from));
	json_object_foreach((json_t *)from, name, function)
		if (json_is_object(function))
			merge(callee(into, name), function);
}

void stack_tree_add_row(struct stack_tree *t, const struct measure *row)
{
	for (unsigned i = 0; i < measure_visits(row); i++) {
		const json_t *layers = measure_visit_at(row, i)->layers;

		merge(t->calls, field_get(layers, "stacks"));
		json_object_update(t->functions, field_get(layers, "functions"));
	}
	json_object_del(t->calls, OWN);
}

/* ---- Reading ---- */

uint64_t stack_tree_own_weight(const json_t *function)
{
	json_int_t weight = json_integer_value(json_object_get(function, OWN));

	return weight > 0 ? (uint64_t)weight : 0;
}

uint64_t stack_tree_weight(const json_t *function)
{
	uint64_t weight = stack_tree_own_weight(function);
	const char *name;
	json_t *called;

	json_object_foreach((json_t *)function, name, called)
		if (*name)
			weight += stack_tree_weight(called);
	return weight;
}

enum layer stack_tree_layer(const struct stack_tree *t, const char *name, enum layer outer)
{
	const char *layer = json_string_value(json_object_get(t->functions, name));

	for (unsigned i = 0; layer && i < LAYER_COUNT; i++)
		if (!strcmp(layer_infos[i].name, layer))
			return i;
	return outer;
}

/* Writes a name as a part of a folded line: characters that would end it there are replaced. */
static void put_name(FILE *to, const char *name)
{
	bool printable;

	while (*name) {
		size_t bytes = printable_next(name, &printable);

		if (*name == ';')
			putc(':', to);
		else if (printable)
			fwrite(name, 1, bytes, to);
		else
			putc('?', to);
		name += bytes;
	}
}

/* path: the functions that lead here, as they are written. */
static void fold(FILE *to, const json_t *function, const char *path)
{
	uint64_t own = stack_tree_own_weight(function);
	const char *name;
	json_t *called;

	if (own)
		fprintf(to, "%s %" PRIu64 "\n", path, own);
	json_object_foreach((json_t *)function, name, called) {
		size_t bytes;
		char *longer;
		FILE *line;

		if (!*name || !(line = open_memstream(&longer, &bytes)))
			continue;
		fprintf(line, "%s%s", path, *path ? ";" : "");
		put_name(line, name);
		fclose(line);
		fold(to, called, longer);
		free(longer);
	}
}

void stack_tree_fold(const struct stack_tree *t, FILE *to)
{
	fold(to, t->calls, "");
}
