/* The state of `nbctl top`: the last interval of each listener, and the user's choices.  The model
 * does no I/O: its inputs are JSON statistics and key presses, and top_view.c renders it. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "figure.h"

enum { TOP_TEXT = 256 };

/* Columns that the table is sorted by. */
enum top_column {
	TOP_LISTENER,
	TOP_ENGINE,
	TOP_OPEN,
	TOP_RATE,
	TOP_BANDWIDTH,
	TOP_P50,
	TOP_P99,
	TOP_CPU_PER_OP,
	TOP_SYSCALLS,
	TOP_TURN,
	TOP_CPU,
	TOP_COLUMNS
};

struct top_column_info {
	const char *name;     /* --sort NAME */
	enum figure figure;   /* FIGURE_COUNT: none */
	unsigned width, rank; /* see struct column */
};
extern const struct top_column_info top_columns[TOP_COLUMNS];

struct top {
	unsigned interval_ms;
	json_t *last;         /* the last document */
	struct measures rows; /* of the last interval, one for each listener, sorted */
	enum top_column sort;
	bool reverse;
	unsigned first; /* the row on top, if as many follow as the screen has room for */
	char trouble[2 * TOP_TEXT]; /* why no document comes and from where; "": they come */
	bool restarted;             /* the daemon was, and no key was pressed since */
};

/* Keys beyond characters. */
enum top_key {
	TOP_KEY_UP = 0x1000,
	TOP_KEY_DOWN,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_HOME,
	TOP_KEY_END,
};
enum { TOP_PAGE = 10 }; /* rows that page up and down move by */

void top_init(struct top *top, unsigned interval_ms);
void top_fini(struct top *top);

/* Takes in a GetStats document, which ends any trouble. */
void top_add(struct top *top, const json_t *stats);

/* Carries out a key; false: quit. */
bool top_key(struct top *top, int key);

/* The value of a row in a numeric column; NAN: none, which sorts last. */
double top_value(const struct measure *row, enum top_column column);
