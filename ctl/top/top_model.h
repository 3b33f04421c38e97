/* The state of `nbctl top`: the last interval of each listener, and the user's choices.  The model
 * does no I/O: its inputs are JSON statistics and key presses, and top_view.c renders it.  While
 * the display is paused, the model still stores new statistics, but shows the old interval. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "figure.h"

enum { TOP_TEXT = 256 };

/* Columns that the table is sorted by; TOP_KEYS in top_model.c has their keys. */
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
	const char *name; /* --sort NAME */
	char key;
	enum figure figure;   /* FIGURE_COUNT: none */
	unsigned width, rank; /* see struct column */
};
extern const struct top_column_info top_columns[TOP_COLUMNS];

/* "CPU per operation" */
const char *top_column_help(enum top_column column);

struct top {
	unsigned interval_ms;
	json_t *last;         /* the last document */
	json_t *from, *shown; /* the documents between which the interval that is shown lies */
	struct measures rows; /* the rows of that interval, one for each listener, sorted */
	enum top_column sort;
	bool reverse, paused, help;
	bool by_worker; /* each row is a worker */
	/* Only rows with this text in their listener, engine or service are shown. */
	char filter[TOP_TEXT];
	bool typing;                /* the user is typing the filter */
	char selected[TOP_TEXT];    /* name of the selected listener; "" while there is none */
	char trouble[2 * TOP_TEXT]; /* why no document comes and from where; "": they come */
	char notice[TOP_TEXT];      /* a message that is shown until the next key */
};

/* Keys beyond characters. */
enum top_key {
	TOP_KEY_UP = 0x1000,
	TOP_KEY_DOWN,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_HOME,
	TOP_KEY_END,
	TOP_KEY_ENTER, /* ends the filter */
	TOP_KEY_BACK,
	TOP_KEY_ERASE,
};
enum { TOP_PAGE = 10 }; /* rows that page up and down move by */

void top_init(struct top *top, unsigned interval_ms);
void top_fini(struct top *top);

/* Takes in a GetStats document, which ends any trouble. */
void top_add(struct top *top, const json_t *stats);

/* Carries out a key; false: quit. */
bool top_key(struct top *top, int key);

void top_sort(struct top *top, enum top_column column);

/* Index of the selected row; 0 when it has gone. */
unsigned top_selected(const struct top *top);

/* The value of a row in a numeric column; NAN: none, which sorts last. */
double top_value(const struct measure *row, enum top_column column);
