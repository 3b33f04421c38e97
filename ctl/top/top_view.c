/* The screen of `nbctl top`: the table of listeners, or one listener, or the keys.  See top_view.h.
 */
#include "top_view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare_group.h"
#include "field.h"
#include "human.h"
#include "top_chart.h"
#include "top_page.h"
#include "util.h"

enum {
	SPARK_MIN = 8, /* columns */
	SPARK_MAX = 60,
	SPARK_GAP = 2,
	SPARK_FROM = 60,   /* columns of a screen that is wide enough for one */
	SPARK_TICKS = 120, /* that a sparkline of the table covers */
};

/* ---- The top two lines ---- */

static void put_title(struct page *p, const struct top *top)
{
	const json_t *stats = top->shown ? top->shown : top->last;
	size_t listeners = json_array_size(field_get(stats, "listeners"));

	page_put(p, STYLE_BOLD, "nbserved %s  up %s  generation %llu  %zu listener%s  every %g s",
		 field_text(stats, "version"), human_time(field_uint(stats, "uptime_ns")).text,
		 (unsigned long long)field_uint(stats, "generation"), listeners, plural(listeners),
		 top->interval_ms / 1e3);
}

static void put_totals(struct page *p, const struct top *top)
{
	double rate = 0, bandwidth = 0, cpu = 0, open = 0;

	for (unsigned i = 0; i < top->rows.count; i++) {
		const struct measure *row = top->rows.rows[i];

		if (measure_unavailable(row))
			continue;
		rate += top_value(row, TOP_RATE);
		bandwidth += top_value(row, TOP_BANDWIDTH);
		cpu += top_value(row, TOP_CPU);
		open += top_value(row, TOP_OPEN);
	}
	page_put(p, STYLE_DIM, "%s%s: %s ops/s  %s MB/s  CPU %s %%  %s connection%s",
		 *top->filter ? "/" : "all", top->filter, page_number(rate).text,
		 page_number(bandwidth / 1e6).text, human_percent(cpu).text,
		 human_count((uint64_t)open).text, plural((uint64_t)open));
}

/* The most important thing to say, or the totals. */
static void put_message(struct page *p, const struct top *top)
{
	const json_t *reload = field_get(top->shown, "reload");

	if (*top->trouble)
		page_put(p, STYLE_BAD, "%s", top->trouble);
	else if (top->paused)
		page_put(p, STYLE_WARN, "paused; press p to resume");
	else if (*top->notice)
		page_put(p, STYLE_WARN, "%s", top->notice);
	else if (top->rows.count == 0 && *top->filter)
		page_put(p, STYLE_WARN, "no listener, engine or service has '%s' in it",
			 top->filter);
	else if (top->rows.count == 0)
		page_put(p, STYLE_DIM, "measuring ...");
	else if (*field_text(reload, "time") && !field_bool(reload, "ok"))
		page_put(p, STYLE_BAD, "last reload %s: see `nbctl status`",
			 field_text(reload, "state"));
	else if (!strcmp(field_text(reload, "state"), "unconfirmed"))
		page_put(p, STYLE_WARN, "last reload unconfirmed: undone in %llu s",
			 (unsigned long long)field_uint(reload, "confirm_within_s"));
	else
		put_totals(p, top);
}

/* ---- The table ---- */

static const struct column columns[TOP_COLUMNS] = {
	[TOP_LISTENER] = { .title = "listener", .left = true, .width_min = 12 },
	[TOP_ENGINE] = { .title = "engine", .left = true, .width_min = 13, .rank = 1 },
	[TOP_OPEN] = { .title = "conns", .unit = "open", .width_min = 5, .rank = 6 },
	[TOP_RATE] = { .title = "ops", .unit = "/s", .width_min = 8 },
	[TOP_BANDWIDTH] = { .title = "MB", .unit = "/s", .width_min = 5, .rank = 3 },
	[TOP_P50] = { .title = "p50", .unit = "us", .width_min = 5, .rank = 2 },
	[TOP_P99] = { .title = "p99", .unit = "us", .width_min = 6, .rank = 4 },
	[TOP_CPU_PER_OP] = { .title = "CPU/op", .unit = "us", .width_min = 6 },
	[TOP_SYSCALLS] = { .title = "calls", .unit = "/op", .width_min = 5, .rank = 5 },
	[TOP_TURN] = { .title = "ops", .unit = "/turn", .width_min = 5, .rank = 8 },
	[TOP_CPU] = { .title = "CPU", .unit = "%", .width_min = 4, .rank = 7 },
};

/* Which way rows are sorted. */
static const char *sort_mark(const struct top *top, bool utf8)
{
	bool ascending = (top->sort == TOP_LISTENER || top->sort == TOP_ENGINE) != top->reverse;

	return utf8 ? (ascending ? "▲" : "▼") : (ascending ? "^" : "v");
}

void page_value_cell(struct table *t, const struct measure *row, enum top_column column)
{
	double value = top_value(row, column);

	if (isnan(value))
		table_cell(t, STYLE_PLAIN, "-");
	else if (column == TOP_OPEN)
		table_cell(t, STYLE_PLAIN, "%s", human_short((uint64_t)value).text);
	else if (column == TOP_BANDWIDTH)
		table_cell(t, STYLE_PLAIN, "%s", page_number(value / 1e6).text);
	else if (column == TOP_P50 || column == TOP_P99 || column == TOP_CPU_PER_OP)
		table_cell(t, STYLE_PLAIN, "%s", page_number(value / NS_PER_US).text);
	else if (column == TOP_CPU)
		table_cell(t, STYLE_PLAIN, "%s", value > 0 ? human_percent(value).text : "0");
	else
		table_cell(t, STYLE_PLAIN, "%s", page_number(value).text);
}

/* The table of all rows, so that columns stay where they are whichever of them are shown, as text
 * of at most `width` columns. */
static char *table_text(const struct top *top, unsigned width, bool utf8)
{
	struct column marked[TOP_COLUMNS];
	char engine[80], *text;
	struct output out;
	struct table *t;
	size_t bytes;

	memcpy(marked, columns, sizeof(columns));
	marked[top->sort].mark = sort_mark(top, utf8);
	t = table_new(marked, TOP_COLUMNS);
	for (unsigned i = 0; i < top->rows.count; i++) {
		const struct measure *row = top->rows.rows[i];

		compare_engine_text(row, engine, sizeof(engine));
		table_cell(t, STYLE_PLAIN, "%s", row->listener);
		table_cell(t, STYLE_PLAIN, "%s", engine);
		for (unsigned j = TOP_OPEN; j < TOP_COLUMNS; j++)
			page_value_cell(t, row, (enum top_column)j);
	}
	page_output(&out, width, &text, &bytes);
	table_print(t, &out, 0, true);
	fclose(out.file);
	table_free(t);
	return text;
}

enum style page_row_style(const struct measure *row)
{
	const char *state = field_text(row->source, "state");

	if (measure_unavailable(row))
		return STYLE_BAD;
	if (*state && strcmp(state, "serving"))
		return STYLE_WARN;
	return row->listener_count ? STYLE_PLAIN : STYLE_DIM;
}

static unsigned lines_width(const char *text)
{
	unsigned width = 0;

	while (*text) {
		size_t bytes = strcspn(text, "\n");
		char *line = strndup(text, bytes);

		if (!line)
			abort();
		width = MAX(width, text_width(line));
		free(line);
		text += bytes + (text[bytes] != '\0');
	}
	return width;
}

/* The sparkline's column: its two titles, then a line for each row. */
struct spark {
	unsigned width, group; /* width 0: no room */
};

static struct spark plan_spark(const struct top *top, unsigned width, unsigned used)
{
	struct spark s = {};

	if (used + SPARK_GAP + SPARK_MIN > width)
		return s;
	s.width = MIN(width - used - SPARK_GAP, SPARK_MAX);
	s.group = top_spark_group(top, s.width, SPARK_TICKS);
	return s;
}

/* A line of the table with what stands in the sparkline's column. */
static void put_with_spark(struct page *p, enum style style, const char *line, unsigned used,
			   const char *spark)
{
	unsigned begin = used + SPARK_GAP;
	unsigned pad = begin > text_width(line) ? begin - text_width(line) : 0;

	page_put(p, style, "%s%*s%s", line, *spark ? (int)pad : 0, "", spark);
}

/* Titles, then the rows of the listeners; the selected one is marked. */
void page_put_rows(struct page *p, const struct top *top, unsigned first, unsigned count, bool mark)
{
	struct measure *const *rows = top->rows.rows + first;
	unsigned width = p->screen->width, used;
	unsigned reserve = width > SPARK_FROM ? SPARK_GAP + SPARK_MIN : 0;
	char *text = table_text(top, width - reserve, p->screen->utf8), *rest = text;
	struct spark s = plan_spark(top, width, used = lines_width(text));
	uint64_t span_ns = (uint64_t)s.group * s.width * top->interval_ms * (uint64_t)NS_PER_MS;
	char span[48];

	snprintf(span, sizeof(span), "%s%s", s.width > SPARK_MIN ? "last " : "",
		 human_time(span_ns).text);
	put_with_spark(p, STYLE_BOLD, page_next_line(&rest), used, s.width ? "ops/s" : "");
	put_with_spark(p, STYLE_DIM, page_next_line(&rest), used, s.width ? span : "");
	for (unsigned i = 0; i < first; i++)
		page_next_line(&rest);
	for (unsigned i = 0; i < count; i++) {
		char *spark = top_sparkline(top, rows[i]->listener, TOP_SERIES_RATE, s.width,
					    MAX(s.group, 1), p->screen->utf8);

		if (page_room(p))
			p->screen->lines[p->used].selected =
				mark && !strcmp(rows[i]->listener, top->selected);
		put_with_spark(p, page_row_style(rows[i]), page_next_line(&rest), used,
			       s.width && measure_unavailable(rows[i]) ? "unavailable" : spark);
		free(spark);
	}
	free(text);
}

static void put_table(struct page *p, const struct top *top)
{
	unsigned lines = page_room(p) > 2 ? page_room(p) - 2 : 0, selected = top_selected(top),
		 first = 0;
	unsigned count = MIN(top->rows.count, lines);

	if (top->rows.count == 0)
		return;
	/* Scrolled so that the selected row is in the middle, if there are that many. */
	if (selected > count / 2)
		first = MIN(selected - count / 2, top->rows.count - count);
	page_put_rows(p, top, first, count, true);
}

/* ---- The keys ---- */

static void put_help(struct page *p)
{
	static const char *const keys[][2] = {
		{ "q, Ctrl-C", "quit" },
		{ "up, down, PgUp, PgDn, Home, End", "select a listener" },
		{ "Enter, Esc", "its latencies and connections, and back" },
		{ "p, space", "pause, go on" },
		{ "z", "reset the latency histogram" },
		{ "/", "only what has this text in it; Esc: all" },
		{ "r", "reverse the order" },
		{ "<, >", "sort by the column to the left, to the right" },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(keys); i++)
		page_put(p, STYLE_PLAIN, "%-33s%s", keys[i][0], keys[i][1]);
	for (unsigned i = 0; i < TOP_COLUMNS; i++)
		page_put(p, STYLE_PLAIN, "%-33csort by %s", top_columns[i].key,
			 top_columns[i].help);
}

/* The order is said here as well: the column that rows are sorted by may have no room. */
static char *help_line(const struct top *top, bool utf8)
{
	char *text;

	if (top->typing) {
		if (asprintf(&text, "/%s_  Enter keep  Esc all", top->filter) < 0)
			return NULL;
		return text;
	}
	if (top->help)
		return strdup("q quit  ? back");
	if (top->detail)
		return strdup("q quit  Esc back  up/down listener  p pause  z zero  ? keys");
	if (asprintf(&text,
		     "q quit  Enter open  p pause  / filter  < > sort: %s %s  r reverse  ? keys",
		     top_columns[top->sort].name, sort_mark(top, utf8)) < 0)
		return NULL;
	return text;
}

/* ---- The screen ---- */

void top_screen_init(struct top_screen *screen, const struct top *top)
{
	struct page p = { .screen = screen };

	screen->lines = calloc(screen->height + 1, sizeof(*screen->lines));
	if (!screen->lines)
		abort();
	if (screen->width < TOP_WIDTH_MIN || screen->height < TOP_HEIGHT_MIN) {
		if (screen->height > 0)
			page_set(screen, 0, STYLE_WARN, strdup("too small for nbctl top"));
		return;
	}
	put_title(&p, top);
	put_message(&p, top);
	if (top->help)
		put_help(&p);
	else if (top->detail)
		page_put_detail(&p, top);
	else
		put_table(&p, top);
	page_set(screen, screen->height - 1, STYLE_DIM, help_line(top, screen->utf8));
}

void top_screen_fini(struct top_screen *screen)
{
	for (unsigned i = 0; screen->lines && i < screen->height; i++)
		free(screen->lines[i].text);
	free(screen->lines);
	screen->lines = NULL;
}
