/* The screen of `nbctl top` for one listener: numbers, operations, last minutes, latencies,
 * connections, as far as there is room. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare_group.h"
#include "connections_table.h"
#include "field.h"
#include "human.h"
#include "top_chart.h"
#include "top_page.h"
#include "util.h"

enum {
	LABEL = 8,  /* columns before a sparkline */
	VALUE = 10, /* columns after a sparkline */
	BINS_MAX = 24,
	BAR_MAX = 100,
	OPERATIONS_MAX = 6, /* rows */
	EXPORTS_MAX = 4,
};

static void put_identity(struct page *p, const struct measure *row)
{
	const json_t *l = row->source;
	char *addresses = field_show(field_get(l, "addresses"));
	const char *reason = field_text(l, "reason");
	uint64_t workers = field_uint(l, "workers");

	page_put(p, page_row_style(row) == STYLE_DIM ? STYLE_PLAIN : page_row_style(row),
		 "%s: %s, %s, %s, %llu worker%s, %s%s%s", row->listener, row->service,
		 compare_engine_text(row).text, field_text(l, "state"), (unsigned long long)workers,
		 plural(workers), addresses, *reason ? ": " : "", reason);
	free(addresses);
}

/* Prints the table, whose titles are two lines, and frees it. */
static void put_table(struct page *p, struct table *t)
{
	unsigned titles = 2;
	char *text, *rest, *line;
	struct output out;

	page_output(&out, p->screen->width, &text);
	table_print(t, &out, 0, true);
	fclose(out.file);
	for (rest = text; (line = page_next_line(&rest)); titles -= titles > 0)
		page_put(p, titles > 0 ? STYLE_DIM : STYLE_PLAIN, "%s", line);
	free(text);
	table_free(t);
}

static const struct column operation_columns[] = {
	{ .title = "operation", .left = true, .width_min = 12 },
	{ .title = "ops", .unit = "/s", .width_min = 9 },
	{ .title = "failed", .unit = "/s", .width_min = 6 },
	{ .title = "p50", .unit = "us", .width_min = 6 },
	{ .title = "p99", .unit = "us", .width_min = 6 },
};

/* Is it an operation of the selected listener with a nonzero count? */
static bool is_to_be_shown(const struct top *top, const struct measure *row)
{
	const json_t *operations = field_get(row->source, "operations");

	return !strcmp(row->listener, top->selected) &&
	       field_uint(json_object_get(operations, row->operation), "count") > 0;
}

static unsigned count_operations(const struct top *top)
{
	unsigned count = 0;

	for (unsigned i = 0; i < top->operations.count; i++)
		count += is_to_be_shown(top, top->operations.rows[i]);
	return count;
}

static void failed_cell(struct table *t, const struct measure *row)
{
	double seconds = (double)row->interval_ns / NS_PER_S;

	table_text(t, page_number((double)row->errors / seconds).text);
}

/* A row for each operation. */
static void put_operations(struct page *p, const struct top *top)
{
	struct table *t = table_new(operation_columns, ARRAY_SIZE(operation_columns));
	unsigned left = MIN(count_operations(top), OPERATIONS_MAX);

	for (unsigned i = 0; i < top->operations.count && left > 0; i++) {
		const struct measure *row = top->operations.rows[i];

		if (!is_to_be_shown(top, row))
			continue;
		table_text(t, row->operation);
		page_value_cell(t, row, TOP_RATE);
		failed_cell(t, row);
		page_value_cell(t, row, TOP_P50);
		page_value_cell(t, row, TOP_P99);
		left--;
	}
	put_table(p, t);
}

static const struct column export_columns[] = {
	{ .title = "export", .left = true, .width_min = 12 },
	{ .title = "store", .left = true, .width_min = 8 },
	{ .title = "reqs", .unit = "/s", .width_min = 9 },
	{ .title = "MB", .unit = "/s", .width_min = 6 },
	{ .title = "failed", .unit = "/s", .width_min = 6 },
	{ .title = "p50", .unit = "us", .width_min = 6 },
	{ .title = "p99", .unit = "us", .width_min = 6 },
	{ .title = "in", .unit = "flight", .width_min = 6 },
};

/* The listener's requests to its exports, with the latency of their stores. */
static void put_exports(struct page *p, const struct top *top)
{
	struct table *t = table_new(export_columns, ARRAY_SIZE(export_columns));
	struct measures m;

	top_exports(top, top->selected, &m);
	for (unsigned i = 0; i < MIN(m.count, EXPORTS_MAX); i++) {
		const struct measure *row = m.rows[i];

		table_text(t, row->listener);
		table_text(t, row->engine);
		page_value_cell(t, row, TOP_RATE);
		page_value_cell(t, row, TOP_BANDWIDTH);
		failed_cell(t, row);
		page_value_cell(t, row, TOP_P50);
		page_value_cell(t, row, TOP_P99);
		table_text(t, human_short(field_uint(row->source, "in_flight")).text);
	}
	if (m.count)
		put_table(p, t);
	else
		table_free(t);
	measures_free(&m);
}

/* The newest value of a series, in its own unit. */
static struct human series_text(const struct measure *row, enum top_series series)
{
	static const enum top_column of[TOP_SERIES] = { TOP_RATE, TOP_P99, TOP_CPU };
	double value = top_value(row, of[series]);

	if (isnan(value))
		return (struct human){ "-" };
	if (series == TOP_SERIES_P99)
		return human_time((uint64_t)value);
	return series == TOP_SERIES_CPU ? human_percent(value) : page_number(value);
}

static void put_past(struct page *p, const struct top *top, const struct measure *row)
{
	static const char *const labels[TOP_SERIES] = { "ops/s", "p99", "CPU %" };
	unsigned width = p->screen->width - LABEL - VALUE;
	unsigned group = top_spark_group(top, width, TOP_HISTORY);

	for (unsigned i = 0; i < TOP_SERIES; i++) {
		char *spark = top_sparkline(top, row->listener, (enum top_series)i, width, group,
					    p->screen->utf8);

		page_put(p, STYLE_PLAIN, "%-*s%s %s", LABEL, labels[i], spark,
			 series_text(row, (enum top_series)i).text);
		free(spark);
	}
}

static void put_bin(struct page *p, const struct top_bin *bin, uint64_t all, uint64_t most)
{
	unsigned used = 44, width = p->screen->width > used ? p->screen->width - used : 0;
	char *bar =
		top_bar((double)bin->count / (double)most, MIN(width, BAR_MAX), p->screen->utf8);

	page_put(p, STYLE_PLAIN, "%9s to %-9s %12s %5s %%  %s", human_time(bin->from_ns).text,
		 human_time(bin->to_ns).text, human_count(bin->count).text,
		 human_percent((double)bin->count / (double)all).text, bar);
	free(bar);
}

/* The latencies since the base, in at most `lines` lines with the title. */
static void put_histogram(struct page *p, const struct top *top, unsigned lines)
{
	struct top_bin bins[BINS_MAX];
	uint64_t most = 0, samples = 0, interval_ns = 0;
	struct measures m;
	unsigned count = 0;

	if (top_since_base(top, top->selected, &m)) {
		samples = m.rows[0]->latency.count;
		interval_ns = m.rows[0]->interval_ns;
		count = top_bins(&m.rows[0]->latency, bins, MIN(lines - 1, BINS_MAX));
	}
	page_put(p, STYLE_BOLD, "latency: %s samples in %s (z: from now on)",
		 human_count(samples).text, human_time(interval_ns).text);
	for (unsigned i = 0; i < count; i++)
		most = MAX(most, bins[i].count);
	for (unsigned i = 0; i < count; i++)
		put_bin(p, &bins[i], samples, most);
	measures_free(&m);
}

static void put_connections(struct page *p, const struct top *top)
{
	json_t *list = field_get(top->connections, "connections");
	uint64_t open = field_uint(top->connections, "open");
	char *text, *rest, *line;
	struct output out;

	if (!top->connections)
		return;
	page_put(p, STYLE_BOLD, "%s connection%s%s", human_count(open).text, plural(open),
		 open > 1 ? ", the busiest first" : "");
	if (json_array_size(list) == 0)
		return;
	page_output(&out, p->screen->width, &text);
	connections_render(&out, list, false);
	fclose(out.file);
	for (rest = text; (line = page_next_line(&rest));)
		page_put(p, line == text ? STYLE_DIM : STYLE_PLAIN, "%s", line);
	free(text);
}

/* Lines of the histogram: half of the remaining ones, or more if the connections need fewer. */
static unsigned histogram_lines(const struct page *p, const struct top *top)
{
	size_t count = json_array_size(field_get(top->connections, "connections"));
	unsigned half = page_room(p) / 2 + 1, all = page_room(p);

	return MAX(half, count + 2 < all ? all - (unsigned)count - 2 : 0);
}

void page_put_detail(struct page *p, const struct top *top)
{
	unsigned at = top_selected(top);
	const struct measure *row;

	if (top->rows.count == 0)
		return;
	row = top->rows.rows[at];
	put_identity(p, row);
	page_put_rows(p, top, at, 1, false);
	if (count_operations(top) > 1)
		put_operations(p, top);
	put_exports(p, top);
	put_past(p, top, row);
	if (page_room(p) >= 2)
		put_histogram(p, top, histogram_lines(p, top));
	put_connections(p, top);
}
