/* Printing: tables that fit the terminal, colour where it is wanted, JSON.
 *
 * A table measures its cells, then fits them to the width: first gaps shrink, then the columns
 * of the highest `rank` are dropped, and a line under the table names these.  Knows nothing
 * about the daemon. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

enum style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_GOOD, STYLE_WARN, STYLE_BAD };

struct output {
	FILE *file;
	unsigned width; /* columns; 0: a file, which need not hide any */
	bool colour;
	bool json;  /* --json was given */
	bool html;  /* prints parts of a page: tables, and paragraphs with their style as class */
	bool terse; /* does not name the dropped columns */
};

/* Sets colour and width by the terminal, NO_COLOR, TERM and COLUMNS. */
void output_init(struct output *out, FILE *file);

void output_text(struct output *out, enum style style, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* One paragraph: words wrapped at the width, continuation lines indented by `indent`. */
void output_wrapped(struct output *out, enum style style, unsigned indent, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* For HTML and XML, in elements and in attributes in double quotes: characters that these forbid
 * become U+FFFD. */
void render_escape(FILE *to, const char *text);
/* The style's name as a class of HTML. */
const char *render_class(enum style style);

/* Text in one line. */
void output_styled(struct output *out, enum style style, const char *text);

/* The width to which paragraphs are wrapped, also for files, whose width is 0. */
unsigned output_width(const struct output *out);

/* One document and a newline; a stream of documents is one per line. */
void output_json(struct output *out, const json_t *document, bool one_line);

/* Width of UTF-8 text, one column per character. */
unsigned text_width(const char *text);

struct column {
	const char *title;
	const char *unit; /* second line of the header; may be NULL */
	bool left;        /* adjusted; numbers are right */
	bool optional;    /* not shown while every cell is empty */
	bool apart;       /* begins a group of columns: the gap before it shrinks last */
	unsigned rank;    /* 0: always shown; the highest is dropped first when space is short */
	unsigned width_min;
	/* Shown beside the title without making the column wider: in the gap before it, or after
	 * the title of a left-adjusted column, whose width_min includes it.  NULL: none. */
	const char *mark;
};

struct table;
struct table *table_new(const struct column *columns, unsigned count);
void table_free(struct table *t);

/* The next cell, in reading order; a row ends when it has a cell for every column. */
void table_cell(struct table *t, enum style style, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* A cell of plain text; NULL: a dash, as nothing is known. */
void table_text(struct table *t, const char *text);
/* `count` empty cells. */
void table_skip(struct table *t, unsigned count);
/* A row of one text over all columns. */
void table_heading(struct table *t, enum style style, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The column is never printed, nor named as dropped. */
void table_omit(struct table *t, unsigned column);
bool table_is_empty(const struct table *t);

/* Prints and forgets the rows, each line indented by `indent`.  Column widths never shrink, so that
 * a table printed again and again (--watch) stays aligned. */
void table_print(struct table *t, struct output *out, unsigned indent, bool header);
/* Prints it with its header and frees it; false: it is empty, and nothing was printed. */
bool table_finish(struct table *t, struct output *out, unsigned indent);
