/* The screen of `nbctl top`: the table of listeners, or one listener, or the keys.  See top_view.h.
 */
#include "top_view.h"

#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "human.h"
#include "must.h"
#include "text.h"
#include "top_page.h"
#include "util.h"

/* ---- The top two lines ---- */

static void put_title(struct page *p, const struct top *top)
{
	const json_t *stats = top->shown ? top->shown : top->last;
	size_t listeners = json_array_size(field_get(stats, "listeners"));

	page_put(p, STYLE_BOLD, "nbserved %s  up %s  generation %llu  %zu %s%s  every %g s",
		 field_text(stats, "version"), human_time(field_uint(stats, "uptime_ns")).text,
		 (unsigned long long)field_uint(stats, "generation"), listeners,
		 top->by_worker ? "worker" : "listener", plural(listeners), top->interval_ms / 1e3);
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

/* Prints the most important message, or the totals. */
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
	else
		put_totals(p, top);
}

/* ---- The table ---- */

static void put_table(struct page *p, const struct top *top)
{
	unsigned lines = page_room(p) > 2 ? page_room(p) - 2 : 0, selected = top_selected(top),
		 first = 0;
	unsigned count = MIN(top->rows.count, lines);

	if (top->rows.count == 0)
		return;
	/* Scrolls so that the selected row is in the middle, if enough rows follow. */
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
		{ "p, space", "pause, continue" },
		{ "z", "reset the latency histogram" },
		{ "w", "a row for each worker, for each listener" },
		{ "/", "only rows with this text; Esc: all" },
		{ "r", "reverse the order" },
		{ "<, >", "sort by the column to the left, to the right" },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(keys); i++)
		page_put(p, STYLE_PLAIN, "%-33s%s", keys[i][0], keys[i][1]);
	for (unsigned i = 0; i < TOP_COLUMNS; i++)
		page_put(p, STYLE_PLAIN, "%-33csort by %s", top_columns[i].key, top_column_help(i));
}

/* The last line: keys, and the column that sorts, which may not be visible. */
static char *help_line(const struct top *top, bool utf8)
{
	if (top->typing)
		return text_new("/%s_  Enter keep  Esc all", top->filter);
	if (top->help)
		return text_new("q quit  ? back");
	if (top->detail)
		return text_new("q quit  Esc back  up/down listener  p pause  z zero  ? keys");
	return text_new("q quit  Enter open  p pause  / filter  < > sort: %s %s  r reverse  ? keys",
			top_columns[top->sort].name, page_sort_mark(top, utf8));
}

/* ---- The screen ---- */

void top_screen_init(struct top_screen *screen, const struct top *top)
{
	struct page p = { .screen = screen };

	screen->lines = must(calloc(screen->height + 1, sizeof(*screen->lines)));
	if (screen->width < TOP_WIDTH_MIN || screen->height < TOP_HEIGHT_MIN) {
		if (screen->height > 0)
			page_set(screen, 0, STYLE_WARN, text_new("too small for nbctl top"));
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
