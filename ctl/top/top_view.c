/* The screen of `nbctl top`: the table of listeners, or the keys.  See top_view.h. */
#include "top_view.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "human.h"
#include "measure.h"
#include "must.h"
#include "text.h"
#include "util.h"

/* ---- Lines ---- */

/* A screen that is being filled in from above. */
struct page {
	struct top_screen *screen;
	unsigned used;
};

/* Lines that are left; the last one of the screen is the help line. */
static unsigned page_room(const struct page *p)
{
	unsigned lines = p->screen->height - 1; /* the last one is the help line */

	return lines > p->used ? lines - p->used : 0;
}

/* Ends the text after `width` columns, and at a newline. */
static void cut(char *text, unsigned width)
{
	unsigned columns = 0;

	text[strcspn(text, "\n")] = '\0';
	for (; *text; text++) {
		if (((unsigned char)*text & 0xc0) != 0x80 && columns++ == width) {
			*text = '\0';
			return;
		}
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
	}
}

/* Sets a line; takes ownership of text. */
static void page_set(struct top_screen *screen, unsigned at, enum style style, char *text)
{
	cut(text, screen->width);
	free(screen->lines[at].text);
	screen->lines[at].text = text;
	screen->lines[at].style = style;
}

/* A line, cut to the screen's width; nothing when there is no room. */
static __attribute__((format(printf, 3, 4))) void page_put(struct page *p, enum style style,
							   const char *format, ...)
{
	va_list arguments;

	if (page_room(p) == 0)
		return;
	va_start(arguments, format);
	page_set(p->screen, p->used++, style, text_new_arguments(format, arguments));
	va_end(arguments);
}

/* human_number(), except that 0 is a plain 0. */
static struct human page_number(double n)
{
	return n > 0 ? human_number(n) : (struct human){ "0" };
}

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

static struct column column_at(enum top_column i)
{
	const struct top_column_info *info = &top_columns[i];
	struct column c = { .title = info->name,
			    .left = i < TOP_OPEN,
			    .width_min = info->width,
			    .rank = info->rank };

	if (i == TOP_OPEN) {
		c.title = "conns";
		c.unit = "open";
	} else if (info->figure != FIGURE_COUNT) {
		c.title = figures[info->figure].title;
		c.unit = figures[info->figure].unit;
	}
	return c;
}

/* The arrow of the sorted column: up when values ascend; without UTF-8 ^ or v. */
static const char *sort_mark(const struct top *top, bool utf8)
{
	bool ascending = (top->sort == TOP_LISTENER || top->sort == TOP_ENGINE) != top->reverse;

	return utf8 ? (ascending ? "▲" : "▼") : (ascending ? "^" : "v");
}

static void value_cell(struct table *t, const struct measure *row, enum top_column column)
{
	double value = top_value(row, column);

	if (isnan(value))
		table_cell(t, STYLE_PLAIN, "-");
	else if (column == TOP_OPEN)
		table_text(t, human_short((uint64_t)value).text);
	else if (column == TOP_CPU)
		table_text(t, value > 0 ? human_percent(value).text : "0");
	else
		table_text(t, page_number(value * figures[top_columns[column].figure].scale).text);
}

/* The table of all rows as text of at most `width` columns.  Includes the rows that are not
 * visible, so that columns do not move when scrolling. */
static char *rows_text(const struct top *top, unsigned width, bool utf8)
{
	struct column columns[TOP_COLUMNS];
	char *text;
	struct output out = { .width = width, .terse = true };
	struct table *t;

	for (unsigned i = 0; i < TOP_COLUMNS; i++)
		columns[i] = column_at(i);
	columns[top->sort].mark = sort_mark(top, utf8);
	t = table_new(columns, TOP_COLUMNS);
	for (unsigned i = 0; i < top->rows.count; i++) {
		const struct measure *row = top->rows.rows[i];

		table_text(t, row->listener);
		table_text(t, measure_unavailable(row) ? "unavailable"
						       : measure_engine_name(row).text);
		for (unsigned j = TOP_OPEN; j < TOP_COLUMNS; j++)
			value_cell(t, row, (enum top_column)j);
	}
	out.file = text_open(&text);
	table_finish(t, &out, 0);
	fclose(out.file);
	return text;
}

/* By the state of the row's listener. */
static enum style row_style(const struct measure *row)
{
	const char *state = field_text(row->source, "state");

	if (measure_unavailable(row))
		return STYLE_BAD;
	if (*state && strcmp(state, "serving"))
		return STYLE_WARN;
	return row->listener_count ? STYLE_PLAIN : STYLE_DIM;
}

/* The next line of a text; "" at the end. */
static const char *next_line(char **rest)
{
	char *line = *rest, *end = line ? strchr(line, '\n') : NULL;

	if (!end)
		return "";
	*end = '\0';
	*rest = end + 1;
	return line;
}

/* Titles, then the rows that fit; the selected one is marked. */
static void put_table(struct page *p, const struct top *top)
{
	unsigned lines = page_room(p) > 2 ? page_room(p) - 2 : 0, selected = top_selected(top);
	unsigned first = 0, count = MIN(top->rows.count, lines);
	char *text, *rest;

	if (top->rows.count == 0)
		return;
	/* Scrolls so that the selected row is in the middle, if enough rows follow. */
	if (selected > count / 2)
		first = MIN(selected - count / 2, top->rows.count - count);
	rest = text = rows_text(top, p->screen->width, p->screen->utf8);
	page_put(p, STYLE_BOLD, "%s", next_line(&rest));
	page_put(p, STYLE_DIM, "%s", next_line(&rest));
	for (unsigned i = 0; i < first; i++)
		next_line(&rest);
	for (unsigned i = first; i < first + count; i++) {
		const struct measure *row = top->rows.rows[i];

		if (page_room(p))
			p->screen->lines[p->used].selected = i == selected;
		page_put(p, row_style(row), "%s", next_line(&rest));
	}
	free(text);
}

/* ---- The keys ---- */

static void put_help(struct page *p)
{
	static const char *const keys[][2] = {
		{ "q, Ctrl-C", "quit" },
		{ "up, down, PgUp, PgDn, Home, End", "scroll" },
		{ "p, space", "pause, continue" },
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
	return text_new("q quit  p pause  / filter  < > sort: %s %s  r reverse  ? keys",
			top_columns[top->sort].name, sort_mark(top, utf8));
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
