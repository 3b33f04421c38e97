/* State of `nbctl top`.  Documents are reference-counted JSON that the state shares; all else is
 * its own.  See top_model.h. */
#include "top_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "must.h"
#include "util.h"

const struct top_column_info top_columns[TOP_COLUMNS] = {
	[TOP_LISTENER] = { "listener", 'n', FIGURE_COUNT, 12, 0 },
	[TOP_ENGINE] = { "engine", 'e', FIGURE_COUNT, 13, 1 },
	[TOP_OPEN] = { "open", 'k', FIGURE_COUNT, 5, 6 },
	[TOP_RATE] = { "ops", 'o', FIGURE_RATE, 8, 0 },
	[TOP_BANDWIDTH] = { "bytes", 'b', FIGURE_BANDWIDTH, 5, 3 },
	[TOP_P50] = { "p50", '5', FIGURE_P50, 5, 2 },
	[TOP_P99] = { "p99", '9', FIGURE_P99, 6, 4 },
	[TOP_CPU_PER_OP] = { "cpu-op", 'c', FIGURE_CPU_PER_OP, 6, 0 },
	[TOP_SYSCALLS] = { "calls", 's', FIGURE_SYSCALLS_PER_OP, 5, 5 },
	[TOP_TURN] = { "turn", 't', FIGURE_OPS_PER_TURN, 5, 8 },
	[TOP_CPU] = { "cpu", 'u', FIGURE_CPU_SHARE, 4, 7 },
};

const char *top_column_help(enum top_column column)
{
	enum figure figure = top_columns[column].figure;

	return figure != FIGURE_COUNT ? figures[figure].words
	       : column == TOP_OPEN   ? "open connections"
				      : top_columns[column].name;
}

void top_init(struct top *top, unsigned interval_ms)
{
	*top = (struct top){ .interval_ms = interval_ms, .sort = TOP_RATE };
}

void top_fini(struct top *top)
{
	measures_free(&top->rows);
	measures_free(&top->operations);
	for (unsigned i = 0; i < top->track_count; i++)
		free(top->tracks[i].name);
	free(top->tracks);
	json_decref(top->last);
	json_decref(top->shown);
	json_decref(top->from);
	json_decref(top->base);
	json_decref(top->connections);
}

/* Sets *slot to document with a new reference, and drops the old one. */
static void keep(json_t **slot, const json_t *document)
{
	json_t *old = *slot;

	*slot = json_incref((json_t *)document);
	json_decref(old);
}

/* ---- Values ---- */

double top_value(const struct measure *row, enum top_column column)
{
	if (measure_unavailable(row))
		return NAN;
	if (column == TOP_OPEN)
		return (double)field_uint(row->source, "connections.open");
	return top_columns[column].figure == FIGURE_COUNT
		       ? NAN
		       : figure_value(row, top_columns[column].figure);
}

/* ---- The last minutes: a ring of values for each listener ---- */

static struct top_track *find_track(const struct top *top, const char *name)
{
	for (unsigned i = 0; i < top->track_count; i++)
		if (!strcmp(top->tracks[i].name, name))
			return &top->tracks[i];
	return NULL;
}

static struct top_track *add_track(struct top *top, const char *name)
{
	struct top_track *track;

	top->tracks = must(reallocarray(top->tracks, top->track_count + 1, sizeof(*top->tracks)));
	track = &top->tracks[top->track_count++];
	track->name = must(strdup(name));
	for (unsigned i = 0; i < TOP_SERIES; i++)
		for (unsigned j = 0; j < TOP_HISTORY; j++)
			track->values[i][j] = NAN;
	return track;
}

/* Forgets the listeners that a document no longer has. */
static void drop_tracks(struct top *top, const json_t *stats)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < top->track_count; i++) {
		if (field_named(stats, "listeners", top->tracks[i].name))
			top->tracks[kept++] = top->tracks[i];
		else
			free(top->tracks[i].name);
	}
	top->track_count = kept;
}

/* Sets the values of one tick; row NULL: they are unknown. */
static void set_past(struct top_track *track, uint64_t tick, const struct measure *row)
{
	unsigned at = (unsigned)(tick % TOP_HISTORY);

	track->values[TOP_SERIES_RATE][at] = row ? (float)top_value(row, TOP_RATE) : NAN;
	track->values[TOP_SERIES_P99][at] = row ? (float)top_value(row, TOP_P99) : NAN;
	track->values[TOP_SERIES_CPU][at] = row ? (float)top_value(row, TOP_CPU) : NAN;
}

/* Adds a tick; rows NULL: a gap. */
static void add_tick(struct top *top, const struct measures *rows)
{
	for (unsigned i = 0; i < top->track_count; i++)
		set_past(&top->tracks[i], top->tick, NULL);
	for (unsigned i = 0; i < rows->count; i++) {
		struct top_track *track = find_track(top, rows->rows[i]->listener);

		if (!track)
			track = add_track(top, rows->rows[i]->listener);
		set_past(track, top->tick, rows->rows[i]);
	}
	top->tick++;
}

float top_past(const struct top *top, const char *name, enum top_series series, uint64_t tick)
{
	const struct top_track *track = find_track(top, name);

	if (!track || tick >= top->tick || top->tick - tick > TOP_HISTORY)
		return NAN;
	return track->values[series][tick % TOP_HISTORY];
}

/* ---- Sorting and selecting ---- */

/* Compares two rows by the chosen column; texts ascend, numbers descend. */
static int compare_rows(const void *a, const void *b, void *context)
{
	const struct measure *x = *(struct measure *const *)a, *y = *(struct measure *const *)b;
	const struct top *top = context;
	double m = top_value(x, top->sort), n = top_value(y, top->sort);
	int order = 0;

	if (top->sort == TOP_ENGINE)
		order = strcmp(x->engine, y->engine);
	else if (isnan(m) != isnan(n))
		return isnan(m) ? 1 : -1;
	else if (!isnan(m))
		order = (m < n) - (m > n);
	if (order == 0)
		order = strverscmp(x->listener, y->listener);
	return top->reverse ? -order : order;
}

static void sort_rows(struct top *top)
{
	if (top->rows.count)
		qsort_r(top->rows.rows, top->rows.count, sizeof(*top->rows.rows), compare_rows,
			top);
}

void top_sort(struct top *top, enum top_column column)
{
	top->reverse = column == top->sort && !top->reverse;
	top->sort = column;
	sort_rows(top);
}

unsigned top_selected(const struct top *top)
{
	for (unsigned i = 0; i < top->rows.count; i++)
		if (!strcmp(top->rows.rows[i]->listener, top->selected))
			return i;
	return 0;
}

static void select_row(struct top *top, long index)
{
	char before[TOP_TEXT];

	memcpy(before, top->selected, sizeof(before));
	if (top->rows.count == 0) {
		top->selected[0] = '\0';
		return;
	}
	index = MAX(0, MIN(index, (long)top->rows.count - 1));
	snprintf(top->selected, sizeof(top->selected), "%s", top->rows.rows[index]->listener);
	if (strcmp(before, top->selected))
		keep(&top->connections, NULL);
}

/* ---- Documents ---- */

/* The rows of an interval; none if one of the documents is missing or the daemon restarted between
 * them.  merged: the operations of a listener are added up. */
static void rows_between(struct measures *m, const json_t *before, const json_t *after, bool merged)
{
	uint64_t interval_ns;

	if (measures_interval(before, after, &interval_ns) < 0)
		return;
	measures_delta(m, before, after, interval_ns, "");
	if (merged)
		measures_merge_operations(m);
}

bool top_since_base(const struct top *top, const char *name, struct measures *ret_row)
{
	json_t *names = json_pack("[s]", name);

	*ret_row = (struct measures){};
	rows_between(ret_row, top->base, top->shown, true);
	measures_select(ret_row, names);
	json_decref(names);
	return ret_row->count > 0;
}

/* Turns one listener's exports into a document of listeners, so that the same code computes their
 * rows.  Returns a new reference. */
static json_t *exports_as_listeners(const json_t *stats, const char *name)
{
	json_t *list = json_array(), *export, *share;
	json_t *since = field_get(field_named(stats, "listeners", name), "since_ns");
	size_t i, j;

	json_array_foreach(field_get(stats, "exports"), i, export)
		json_array_foreach(field_get(export, "listeners"), j, share)
			if (!strcmp(field_text(share, "listener"), name))
				json_array_append_new(
					list,
					json_pack("{s:O*, s:O*, s:O*, s:O*, s:O*, s:O*, s:O*}",
						  "name", field_get(export, "name"), "since_ns",
						  since, "engine", field_get(share, "store"),
						  "operations", field_get(share, "operations"),
						  "bytes_in", field_get(share, "bytes_written"),
						  "bytes_out", field_get(share, "bytes_read"),
						  "in_flight", field_get(share, "in_flight")));
	return json_pack("{s:O*, s:o}", "uptime_ns", field_get(stats, "uptime_ns"), "listeners",
			 list);
}

void top_exports(const struct top *top, const char *name, struct measures *ret_rows)
{
	json_t *before = exports_as_listeners(top->from, name);
	json_t *after = exports_as_listeners(top->shown, name);

	*ret_rows = (struct measures){};
	rows_between(ret_rows, before, after, true);
	json_decref(before);
	json_decref(after);
}

static bool is_wanted(const struct top *top, const struct measure *row)
{
	return strcasestr(row->listener, top->filter) || strcasestr(row->engine, top->filter) ||
	       strcasestr(row->service, top->filter);
}

static void filter_rows(struct top *top)
{
	json_t *names = json_array();

	for (unsigned i = 0; i < top->rows.count; i++)
		if (is_wanted(top, top->rows.rows[i]))
			json_array_append_new(names, json_string(top->rows.rows[i]->listener));
	if (*top->filter)
		measures_select(&top->rows, names);
	json_decref(names);
}

/* The interval from top->from to top->shown. */
static void make_rows(struct top *top)
{
	measures_free(&top->rows);
	measures_free(&top->operations);
	rows_between(&top->rows, top->from, top->shown, true);
	rows_between(&top->operations, top->from, top->shown, false);
	filter_rows(top);
	sort_rows(top);
	select_row(top, top_selected(top));
}

static void show(struct top *top, const json_t *before, const json_t *after)
{
	keep(&top->from, before);
	keep(&top->shown, after);
	top->shown_tick = top->tick;
	make_rows(top);
}

/* Handles the first document, also after a restart of the daemon: there is no interval yet, so the
 * screen does not change until the next one. */
static void start_again(struct top *top, const json_t *stats)
{
	struct measures none = {};

	if (top->last) {
		snprintf(top->notice, sizeof(top->notice), "the daemon was restarted");
		add_tick(top, &none);
	}
	/* After a restart the histogram begins with the daemon. */
	keep(&top->base, top->last ? NULL : stats);
	keep(&top->last, stats);
}

void top_add(struct top *top, const json_t *stats)
{
	struct measures rows = {};
	uint64_t interval_ns;

	top->trouble[0] = '\0';
	drop_tracks(top, stats);
	if (!top->last || measures_interval(top->last, stats, &interval_ns) < 0) {
		start_again(top, stats);
		return;
	}
	rows_between(&rows, top->last, stats, true);
	add_tick(top, &rows);
	measures_free(&rows);
	if (!top->paused)
		show(top, top->last, stats);
	keep(&top->last, stats);
}

const char *top_listener(const struct top *top, const char *row)
{
	const char *listener = field_text(field_named(top->shown, "listeners", row), "listener");

	return *listener ? listener : row;
}

void top_keep_connections(const struct top *top, const char *row, json_t *reply)
{
	const json_t *part = field_named(top->shown, "listeners", row);
	json_t *worker = field_get(part, "worker"), *list = field_get(reply, "connections");

	if (!worker)
		return;
	for (size_t i = json_array_size(list); i-- > 0;)
		if (!json_equal(worker, json_object_get(json_array_get(list, i), "worker")))
			json_array_remove(list, i);
	json_object_set(reply, "open", field_get(part, "connections.open"));
}

/* Rows of the other kind follow: nothing of these can be compared with them. */
static void turn_by_worker(struct top *top)
{
	top->by_worker = !top->by_worker;
	top->detail = false;
	keep(&top->last, NULL);
}

void top_add_connections(struct top *top, const char *listener, json_t *reply)
{
	if (!top->paused && !strcmp(listener, top->selected))
		keep(&top->connections, reply);
}

/* ---- Keys ---- */

static void move_selection(struct top *top, int key)
{
	enum { FAR = 1 << 30 };
	static const struct {
		int key;
		long step;
	} moves[] = {
		{ TOP_KEY_UP, -1 },
		{ TOP_KEY_DOWN, 1 },
		{ TOP_KEY_PAGE_UP, -TOP_PAGE },
		{ TOP_KEY_PAGE_DOWN, TOP_PAGE },
		{ TOP_KEY_HOME, -FAR },
		{ TOP_KEY_END, FAR },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(moves); i++)
		if (key == moves[i].key)
			select_row(top, (long)top_selected(top) + moves[i].step);
}

static bool sort_key(struct top *top, int key)
{
	int column = (int)top->sort;

	for (unsigned i = 0; i < TOP_COLUMNS; i++) {
		if (key != top_columns[i].key)
			continue;
		top_sort(top, (enum top_column)i);
		return true;
	}
	if (key == '<' || key == '>') {
		column += key == '<' ? TOP_COLUMNS - 1 : 1;
		top->reverse = false;
		top->sort = (enum top_column)(column % TOP_COLUMNS);
	} else if (key == 'r') {
		top->reverse = !top->reverse;
	} else {
		return false;
	}
	sort_rows(top);
	return true;
}

/* A key while the filter is typed.  Enter keeps the text; Esc, or erasing an empty text, shows
 * all rows again. */
static void filter_key(struct top *top, int key)
{
	size_t bytes = strlen(top->filter);

	if (key == TOP_KEY_BACK || (key == TOP_KEY_ERASE && bytes == 0))
		bytes = 0;
	else if (key == TOP_KEY_ERASE)
		bytes--;
	else if (key > ' ' && key < 0x7f && bytes + 1 < sizeof(top->filter))
		top->filter[bytes++] = (char)key;
	else if (key != TOP_KEY_ENTER)
		return;
	top->typing = key != TOP_KEY_ENTER && key != TOP_KEY_BACK;
	top->filter[bytes] = '\0';
	make_rows(top);
}

bool top_key(struct top *top, int key)
{
	top->notice[0] = '\0';
	if (top->typing) {
		filter_key(top, key);
		return true;
	}
	switch (key) {
	case 'q':
		return false;
	case TOP_KEY_BACK:
	case TOP_KEY_ERASE:
		/* Leaves the help, else the listener, else clears the filter. */
		if (top->help)
			top->help = false;
		else if (top->detail)
			top->detail = false;
		else if (*top->filter)
			filter_key(top, TOP_KEY_BACK);
		return true;
	case '/':
		top->help = top->detail = false;
		top->typing = true;
		return true;
	case TOP_KEY_ENTER:
		top->detail = !top->detail && top->rows.count > 0;
		top->help = false;
		return true;
	case 'p':
	case ' ':
		top->paused = !top->paused;
		return true;
	case 'w':
		turn_by_worker(top);
		return true;
	case 'z':
		keep(&top->base, top->shown ? top->shown : top->last);
		return true;
	case '?':
	case 'h':
		top->help = !top->help;
		return true;
	default:
		if (!sort_key(top, key))
			move_selection(top, key);
		return true;
	}
}
