/* The state of `nbctl top`: the last interval of each listener, their last minutes, and what the
 * user has chosen.  Pure: documents and keys go in, top_view.c makes lines of it.
 *
 * Time is counted in ticks, one for each document.  While paused documents are still taken in, so
 * that the sparklines have no gap afterwards; what is shown stays. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "figure.h"

enum {
	TOP_HISTORY = 600, /* ticks that a sparkline can reach back */
	TOP_TEXT = 256,
};

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

/* One tick of a listener's history. */
enum top_series { TOP_SERIES_RATE, TOP_SERIES_P99, TOP_SERIES_CPU, TOP_SERIES };

/* A listener's last minutes; NAN: the value of that tick is not known. */
struct top_track {
	char *name;
	float values[TOP_SERIES][TOP_HISTORY]; /* indexed by tick % TOP_HISTORY */
};

struct top {
	unsigned interval_ms;
	json_t *last; /* the last document */
	/* The document on the screen; that at which the histogram begins, NULL: the daemon's start.
	 */
	json_t *shown, *base;
	json_t *from;               /* the document at which the interval that is shown begins */
	struct measures rows;       /* the rows of that interval, one for each listener, sorted */
	struct measures operations; /* the same, not added up */
	json_t *connections;        /* ListConnections' reply for the selected listener, or NULL */
	struct top_track *tracks;
	unsigned track_count;
	/* The tick of the next document; the tick after the last one shown. */
	uint64_t tick, shown_tick;
	enum top_column sort;
	bool reverse, paused, detail, help;
	bool by_worker; /* each row is a worker */
	/* Only rows with this text in their listener, engine or service are shown. */
	char filter[TOP_TEXT];
	bool typing;             /* the user is typing the filter */
	char selected[TOP_TEXT]; /* name of the selected listener; "" while there is none */
	char trouble[TOP_TEXT];  /* the reason why no document comes; "": they come */
	char notice[TOP_TEXT];   /* a message that is shown until the next key */
};

/* Keys beyond characters. */
enum top_key {
	TOP_KEY_UP = 0x1000,
	TOP_KEY_DOWN,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_HOME,
	TOP_KEY_END,
	TOP_KEY_ENTER,
	TOP_KEY_BACK,
	TOP_KEY_ERASE,
};
enum { TOP_PAGE = 10 }; /* rows that page up and down move by */

void top_init(struct top *top, unsigned interval_ms);
void top_fini(struct top *top);

/* Takes in a GetStats document, which ends any trouble. */
void top_add(struct top *top, const json_t *stats);

/* Takes in the connections of a listener, sorted by bytes; ignored if another listener
 * is selected now. */
void top_add_connections(struct top *top, const char *listener, json_t *reply);

/* The listener of a row, which is another name than the row's if that is a worker. */
const char *top_listener(const struct top *top, const char *row);

/* Takes connections of other workers than the row's out of ListConnections' reply
 * for its listener. */
void top_keep_connections(const struct top *top, const char *row, json_t *reply);

/* Carries out a key; false: quit. */
bool top_key(struct top *top, int key);

void top_sort(struct top *top, enum top_column column);

/* Index of the selected row; 0 when it has gone. */
unsigned top_selected(const struct top *top);

/* The value of a row in a numeric column; NAN: none, which sorts last. */
double top_value(const struct measure *row, enum top_column column);

/* A value of the listener `name` in the past, by the tick; NAN when not known. */
float top_past(const struct top *top, const char *name, enum top_series series, uint64_t tick);

/* The requests of listener `name` to its exports in the interval, a row for each: `listener` is the
 * export, `engine` the store, latency that of the store, source has "in_flight".  To be freed. */
void top_exports(const struct top *top, const char *name, struct measures *ret_rows);

/* The listener's row since top->base; false when it has none.  To be freed with measures_free(). */
bool top_since_base(const struct top *top, const char *name, struct measures *ret_row);
