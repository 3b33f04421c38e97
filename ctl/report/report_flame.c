/* Flame graphs: a box for each function on each way to it, as wide as its time, above its caller;
 * its colour is its layer's.  See report.h. */
#include <stdlib.h>
#include <string.h>

#include "human.h"
#include "must.h"
#include "report.h"
#include "report_page.h"
#include "stack_tree.h"
#include "svg.h"
#include "text.h"
#include "util.h"

enum { WIDTH = 1200, EDGE = 10, HEAD = 30, BOX = 17, DEPTH_MAX = STACK_FRAMES_MAX };
static const double BOX_LEAST = 0.5, NAME_LEAST = 24; /* narrower ones are left out */

struct flame {
	FILE *to;
	const struct stack_tree *tree;
	double all;               /* the weight of all chains */
	double base;              /* y of the lowest box */
	bool layers[LAYER_COUNT]; /* that are drawn */
};

/* A function at its place. */
struct box {
	const char *name;
	const json_t *function;
	double x, weight;
	unsigned depth;
	enum layer layer;
};

static double width_of(const struct flame *f, double weight)
{
	return f->all > 0 ? (WIDTH - 2 * EDGE) * weight / f->all : 0;
}

/* ---- Order: by name, so that the graphs of two listeners are alike ---- */

static int compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names of the functions that are called, which the caller frees. */
static const char **callees(const json_t *function, unsigned *ret_count)
{
	const char **names = must(calloc(json_object_size(function) + 1, sizeof(*names))), *name;
	unsigned count = 0;
	json_t *called;

	json_object_foreach((json_t *)function, name, called)
		if (*name)
			names[count++] = name;
	qsort(names, count, sizeof(*names), compare);
	*ret_count = count;
	return names;
}

/* ---- Boxes ---- */

static unsigned depth_of(const struct flame *f, const json_t *function, unsigned depth)
{
	unsigned deepest = depth;
	const char *name;
	json_t *called;

	if (depth == DEPTH_MAX)
		return depth;
	json_object_foreach((json_t *)function, name, called) {
		unsigned below = 0;

		if (*name && width_of(f, (double)stack_tree_weight(called)) >= BOX_LEAST)
			below = depth_of(f, called, depth + 1);
		deepest = MAX(deepest, below);
	}
	return deepest;
}

/* "tcp_ack (TCP, UDP, IP): 12.3 %, 4.1 % its own" */
static void box_title(const struct flame *f, const struct box *b, char *text, size_t bytes)
{
	snprintf(text, bytes, "%.200s (%s): %s %%, %s %% its own", b->name,
		 b->layer < LAYER_COUNT ? layer_infos[b->layer].words : "no layer",
		 human_percent(b->weight / f->all).text,
		 human_percent((double)stack_tree_own_weight(b->function) / f->all).text);
}

static void draw(struct flame *f, const struct box *b)
{
	double width = width_of(f, b->weight), y = f->base - b->depth * BOX, x = b->x;
	const char *layer = b->layer < LAYER_COUNT ? layer_infos[b->layer].name : "all";
	char title[320], class[64];
	const char **names;
	unsigned count;

	snprintf(class, sizeof(class), "layer %s", layer);
	box_title(f, b, title, sizeof(title));
	svg_rect_titled(f->to, class, b->x, y, width, BOX, title);
	if (width >= NAME_LEAST)
		svg_text_fit(f->to, "frame", b->x + 3, y + BOX - 5, width - 6, b->name);
	if (b->layer < LAYER_COUNT)
		f->layers[b->layer] = true;
	names = callees(b->function, &count);
	for (unsigned i = 0; i < count && b->depth < DEPTH_MAX; i++) {
		const json_t *called = json_object_get(b->function, names[i]);
		struct box box = { names[i],
				   called,
				   x,
				   (double)stack_tree_weight(called),
				   b->depth + 1,
				   stack_tree_layer(f->tree, names[i], b->layer) };

		x += width_of(f, box.weight);
		if (width_of(f, box.weight) >= BOX_LEAST)
			draw(f, &box);
	}
	free(names);
}

void report_flame(FILE *to, const struct stack_tree *tree, const char *title, const char *style)
{
	struct flame f = { .tree = tree, .all = (double)stack_tree_weight(tree->calls) };
	struct box all = { "all", tree->calls, EDGE, f.all, 0, LAYER_NONE };
	char *body;
	double bottom;

	f.to = text_open(&body);
	f.base = HEAD + depth_of(&f, tree->calls, 0) * BOX;
	svg_text_fit(f.to, "head", EDGE, 20, WIDTH - 2 * EDGE, title);
	draw(&f, &all);
	bottom = report_layers_legend(f.to, f.layers, WIDTH, f.base + BOX + 22);
	svg_put(to, f.to, &body, WIDTH, bottom, title, style);
}
