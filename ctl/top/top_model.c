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
	json_decref(top->last);
	json_decref(top->shown);
	json_decref(top->from);
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
	if (top->rows.count == 0) {
		top->selected[0] = '\0';
		return;
	}
	index = MAX(0, MIN(index, (long)top->rows.count - 1));
	snprintf(top->selected, sizeof(top->selected), "%s", top->rows.rows[index]->listener);
}

/* ---- Documents ---- */

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

/* Sums the operations of each listener into its first row. */
static void merge_operations(struct measures *m)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < m->count; i++) {
		struct measure *row = m->rows[i], *last = kept ? m->rows[kept - 1] : NULL;

		if (!last || last->source != row->source) {
			m->rows[kept++] = row;
			continue;
		}
		last->operation = "";
		measure_join(last, row);
	}
	m->count = kept;
}

/* The interval from top->from to top->shown. */
static void make_rows(struct top *top)
{
	uint64_t interval_ns;

	measures_free(&top->rows);
	if (measures_interval(top->from, top->shown, &interval_ns) == 0) {
		measures_delta(&top->rows, top->from, top->shown, interval_ns, "");
		merge_operations(&top->rows);
	}
	filter_rows(top);
	sort_rows(top);
	select_row(top, top_selected(top));
}

void top_add(struct top *top, const json_t *stats)
{
	uint64_t interval_ns;
	bool follows = top->last && measures_interval(top->last, stats, &interval_ns) == 0;

	top->trouble[0] = '\0';
	/* Of the first document, also after a restart of the daemon, there is no interval yet: the
	 * screen does not change until the next one. */
	if (top->last && !follows)
		snprintf(top->notice, sizeof(top->notice), "the daemon was restarted");
	if (follows && !top->paused) {
		keep(&top->from, top->last);
		keep(&top->shown, stats);
		make_rows(top);
	}
	keep(&top->last, stats);
}

/* Rows of the other kind follow: nothing of these can be compared with them. */
static void turn_by_worker(struct top *top)
{
	top->by_worker = !top->by_worker;
	keep(&top->last, NULL);
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
		/* Leaves the help, else clears the filter. */
		if (top->help)
			top->help = false;
		else if (*top->filter)
			filter_key(top, TOP_KEY_BACK);
		return true;
	case '/':
		top->help = false;
		top->typing = true;
		return true;
	case 'p':
	case ' ':
		top->paused = !top->paused;
		return true;
	case 'w':
		turn_by_worker(top);
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
