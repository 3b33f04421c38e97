/* Shared by the files that draw the screen of `nbctl top`. */
#pragma once
#include "human.h"
#include "top_view.h"

/* A screen that is being filled in from above. */
struct page {
	struct top_screen *screen;
	unsigned used;
};

/* Lines that are left; the last one of the screen is the help line. */
unsigned page_room(const struct page *p);

/* A line, cut to the screen's width; nothing when there is no room. */
void page_put(struct page *p, enum style style, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Sets a line; takes ownership of text. */
void page_set(struct top_screen *screen, unsigned at, enum style style, char *text);

/* An output for renderers of tables, into memory; close out->file, then free *text. */
void page_output(struct output *out, unsigned width, char **text);

/* The next line of that text; NULL at the end. */
char *page_next_line(char **rest);

/* human_number(), except that 0 is a plain 0. */
struct human page_number(double n);

/* The arrow of the sorted column: up when values ascend; without UTF-8 ^ or v. */
const char *page_sort_mark(const struct top *top, bool utf8);

/* The style of a row, by its listener's state. */
enum style page_row_style(const struct measure *row);
void page_value_cell(struct table *t, const struct measure *row, enum top_column column);

/* Titles, then `count` rows from `first` on, with sparklines; `mark`: the selected
 * row is marked. */
void page_put_rows(struct page *p, const struct top *top, unsigned first, unsigned count,
		   bool mark);

/* Draws everything about the selected listener. */
void page_put_detail(struct page *p, const struct top *top);
