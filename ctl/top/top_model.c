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
	[TOP_LISTENER] = { "listener", FIGURE_COUNT, 12, 0 },
	[TOP_ENGINE] = { "engine", FIGURE_COUNT, 13, 1 },
	[TOP_OPEN] = { "open", FIGURE_COUNT, 5, 6 },
	[TOP_RATE] = { "ops", FIGURE_RATE, 8, 0 },
	[TOP_BANDWIDTH] = { "bytes", FIGURE_BANDWIDTH, 5, 3 },
	[TOP_P50] = { "p50", FIGURE_P50, 5, 2 },
	[TOP_P99] = { "p99", FIGURE_P99, 6, 4 },
	[TOP_CPU_PER_OP] = { "cpu-op", FIGURE_CPU_PER_OP, 6, 0 },
	[TOP_SYSCALLS] = { "calls", FIGURE_SYSCALLS_PER_OP, 5, 5 },
	[TOP_TURN] = { "turn", FIGURE_OPS_PER_TURN, 5, 8 },
	[TOP_CPU] = { "cpu", FIGURE_CPU_SHARE, 4, 7 },
};

void top_init(struct top *top, unsigned interval_ms)
{
	*top = (struct top){ .interval_ms = interval_ms, .sort = TOP_RATE };
}

void top_fini(struct top *top)
{
	measures_free(&top->rows);
	json_decref(top->last);
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

/* ---- Sorting ---- */

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

/* ---- Documents ---- */

/* `top` shows one row of each listener.  measures_delta() made one of each operation, side by side:
 * the others are added to the first. */
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

void top_add(struct top *top, const json_t *stats)
{
	uint64_t interval_ns;

	top->trouble[0] = '\0';
	/* Of the first document, also after a restart of the daemon, there is no interval yet: the
	 * rows do not change until the next one. */
	if (top->last && measures_interval(top->last, stats, &interval_ns) < 0) {
		top->restarted = true;
	} else if (top->last) {
		measures_free(&top->rows);
		measures_delta(&top->rows, top->last, stats, interval_ns, "");
		merge_operations(&top->rows);
		sort_rows(top);
	}
	json_decref(top->last);
	top->last = json_incref((json_t *)stats);
}

/* ---- Keys ---- */

static void scroll(struct top *top, int key)
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
			top->first = (unsigned)MAX(
				0, MIN((long)top->first + moves[i].step, (long)top->rows.count));
}

bool top_key(struct top *top, int key)
{
	top->restarted = false;
	switch (key) {
	case 'q':
		return false;
	case '<':
	case '>':
		top->sort = (top->sort + (key == '<' ? TOP_COLUMNS - 1 : 1)) % TOP_COLUMNS;
		top->reverse = false;
		break;
	case 'r':
		top->reverse = !top->reverse;
		break;
	default:
		scroll(top, key);
		return true;
	}
	sort_rows(top);
	return true;
}
