/* The screen of `nbctl top`.  See top_view.h. */
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
	size_t listeners = json_array_size(field_get(top->last, "listeners"));

	page_put(p, STYLE_BOLD, "nbserved %s  up %s  generation %llu  %zu listener%s  every %g s",
		 field_text(top->last, "version"),
		 human_time(field_uint(top->last, "uptime_ns")).text,
		 (unsigned long long)field_uint(top->last, "generation"), listeners,
		 plural(listeners), top->interval_ms / 1e3);
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
	page_put(p, STYLE_DIM, "all: %s ops/s  %s MB/s  CPU %s %%  %s connection%s",
		 page_number(rate).text, page_number(bandwidth / 1e6).text, human_percent(cpu).text,
		 human_count((uint64_t)open).text, plural((uint64_t)open));
}

/* Prints the most important message, or the totals. */
static void put_message(struct page *p, const struct top *top)
{
	const json_t *reload = field_get(top->last, "reload");

	if (*top->trouble)
		page_put(p, STYLE_BAD, "%s", top->trouble);
	else if (top->restarted)
		page_put(p, STYLE_WARN, "the daemon was restarted");
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

/* Titles, then the rows that fit, from top->first on. */
static void put_table(struct page *p, struct top *top)
{
	unsigned lines = page_room(p) > 2 ? page_room(p) - 2 : 0;
	unsigned count = MIN(top->rows.count, lines);
	char *text, *rest;

	if (top->rows.count == 0)
		return;
	top->first = MIN(top->first, top->rows.count - count);
	rest = text = rows_text(top, p->screen->width, p->screen->utf8);
	page_put(p, STYLE_BOLD, "%s", next_line(&rest));
	page_put(p, STYLE_DIM, "%s", next_line(&rest));
	for (unsigned i = 0; i < top->first; i++)
		next_line(&rest);
	for (unsigned i = top->first; i < top->first + count; i++)
		page_put(p, row_style(top->rows.rows[i]), "%s", next_line(&rest));
	free(text);
}

/* ---- The screen ---- */

void top_screen_init(struct top_screen *screen, struct top *top)
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
	put_table(&p, top);
	/* The keys, and the column that sorts, which may not be visible. */
	page_set(screen, screen->height - 1, STYLE_DIM,
		 text_new("q quit  < > sort: %s %s  r reverse  up down PgUp PgDn Home End scroll",
			  top_columns[top->sort].name, sort_mark(top, screen->utf8)));
}

void top_screen_fini(struct top_screen *screen)
{
	for (unsigned i = 0; screen->lines && i < screen->height; i++)
		free(screen->lines[i].text);
	free(screen->lines);
	screen->lines = NULL;
}
