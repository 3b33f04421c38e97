/* Tables: cells are collected as text, measured when printed, and freed then.  See render.h;
 * output.c has the rest. */
#include "render.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"
#include "text.h"
#include "util.h"

enum { COLUMNS_MAX = 64, GAP = 2 };

struct cell {
	char *text; /* NULL: empty */
	enum style style;
};

struct row {
	struct cell heading; /* with text: it takes the whole row */
	struct cell cells[COLUMNS_MAX];
};

struct table {
	const struct column *columns;
	unsigned column_count, cell_count; /* cells of the last row that are set */
	struct row *rows;
	unsigned row_count;
	unsigned widths[COLUMNS_MAX]; /* 0: no cell with text so far */
	bool hidden[COLUMNS_MAX], omitted[COLUMNS_MAX];
	unsigned gap, apart_gap;
};

/* ---- Table ---- */

struct table *table_new(const struct column *columns, unsigned count)
{
	struct table *t = must(calloc(1, sizeof(*t)));

	if (count > COLUMNS_MAX)
		abort();
	t->columns = columns;
	t->column_count = count;
	t->cell_count = count;
	return t;
}

static void table_clear(struct table *t)
{
	for (unsigned i = 0; i < t->row_count; i++) {
		free(t->rows[i].heading.text);
		for (unsigned j = 0; j < t->column_count; j++)
			free(t->rows[i].cells[j].text);
	}
	free(t->rows);
	t->rows = NULL;
	t->row_count = 0;
	t->cell_count = t->column_count;
}

void table_free(struct table *t)
{
	if (!t)
		return;
	table_clear(t);
	free(t);
}

static struct row *table_add_row(struct table *t)
{
	t->rows = must(reallocarray(t->rows, t->row_count + 1, sizeof(*t->rows)));
	t->rows[t->row_count] = (struct row){};
	return &t->rows[t->row_count++];
}

/* The next cell in reading order; begins a row when the last one is full. */
static struct cell *next_cell(struct table *t)
{
	if (t->cell_count == t->column_count) {
		table_add_row(t);
		t->cell_count = 0;
	}
	return &t->rows[t->row_count - 1].cells[t->cell_count++];
}

void table_cell(struct table *t, enum style style, const char *format, ...)
{
	struct cell *cell = next_cell(t);
	va_list arguments;

	va_start(arguments, format);
	cell->text = text_new_arguments(format, arguments);
	va_end(arguments);
	cell->style = style;
}

void table_text(struct table *t, const char *text)
{
	table_cell(t, text ? STYLE_PLAIN : STYLE_DIM, "%s", text ? text : "-");
}

void table_skip(struct table *t, unsigned count)
{
	while (count--)
		next_cell(t);
}

void table_heading(struct table *t, enum style style, const char *format, ...)
{
	struct row *row = table_add_row(t);
	va_list arguments;

	va_start(arguments, format);
	row->heading.text = text_new_arguments(format, arguments);
	va_end(arguments);
	row->heading.style = style;
	t->cell_count = t->column_count;
}

void table_omit(struct table *t, unsigned column)
{
	t->omitted[column] = true;
}

bool table_is_empty(const struct table *t)
{
	return t->row_count == 0;
}

/* Widens columns to their texts.  Widths never shrink, so that a table printed
 * again stays aligned. */
static void measure_columns(struct table *t)
{
	for (unsigned j = 0; j < t->column_count; j++) {
		const struct column *c = &t->columns[j];
		unsigned width = MAX(c->width_min, text_width(c->title));
		bool empty = t->widths[j] == 0 && c->optional;

		if (t->omitted[j])
			continue;
		if (c->unit)
			width = MAX(width, text_width(c->unit));
		for (unsigned i = 0; i < t->row_count; i++) {
			const char *text = t->rows[i].cells[j].text;

			if (!text || !*text)
				continue;
			empty = false;
			width = MAX(width, text_width(text));
		}
		if (!empty)
			t->widths[j] = MAX(t->widths[j], width);
	}
}

/* Spaces in front of a column that is not the first. */
static unsigned gap_before(const struct table *t, unsigned column)
{
	return t->columns[column].apart ? t->apart_gap : t->gap;
}

static unsigned table_width(const struct table *t, unsigned indent)
{
	unsigned width = 0;

	for (unsigned j = 0; j < t->column_count; j++)
		if (t->widths[j] && !t->hidden[j])
			width += t->widths[j] + (width ? gap_before(t, j) : indent);
	return width;
}

/* The shown column of the highest rank; -1: all others must stay. */
static int least_important(const struct table *t)
{
	int found = -1;

	for (unsigned j = 0; j < t->column_count; j++) {
		unsigned rank = t->columns[j].rank;

		if (rank && t->widths[j] && !t->hidden[j] &&
		    (found < 0 || rank > t->columns[found].rank))
			found = (int)j;
	}
	return found;
}

/* Fits the table to the width: first the gaps shrink, then columns are hidden by rank. */
static void fit(struct table *t, const struct output *out, unsigned indent)
{
	int j;

	memset(t->hidden, 0, sizeof(t->hidden));
	t->gap = t->apart_gap = GAP;
	if (table_width(t, indent) > output_width(out))
		t->gap = 1;
	if (table_width(t, indent) > output_width(out))
		t->apart_gap = 1;
	while (out->width && table_width(t, indent) > out->width && (j = least_important(t)) >= 0)
		t->hidden[j] = true;
}

static void put_row(const struct table *t, struct output *out, unsigned indent,
		    const struct cell *cells)
{
	unsigned pad = indent; /* pending spaces, so that no line ends with spaces */
	bool first = true;

	for (unsigned j = 0; j < t->column_count; j++) {
		const char *text = cells[j].text ? cells[j].text : "";
		unsigned width = t->widths[j], used = text_width(text);

		if (width == 0 || t->hidden[j])
			continue;
		pad += first ? 0 : gap_before(t, j);
		first = false;
		if (!t->columns[j].left)
			/* A right-adjusted title with its mark may be wider than its column: it
			 * then takes a space of the gap, so pad + width is never less than used. */
			pad = pad + width - used;
		if (used) {
			fprintf(out->file, "%*s", (int)pad, "");
			output_styled(out, cells[j].style, text);
			pad = 0;
		}
		if (t->columns[j].left)
			pad += width - used;
	}
	putc('\n', out->file);
}

static void put_header(const struct table *t, struct output *out, unsigned indent)
{
	struct cell titles[COLUMNS_MAX] = {}, units[COLUMNS_MAX] = {};
	bool with_units = false;
	char marked[48];

	for (unsigned j = 0; j < t->column_count; j++) {
		const struct column *c = &t->columns[j];

		titles[j] = (struct cell){ (char *)c->title, STYLE_BOLD };
		units[j] = (struct cell){ (char *)c->unit, STYLE_DIM };
		with_units |= c->unit && t->widths[j] && !t->hidden[j];
		if (!c->mark)
			continue;
		snprintf(marked, sizeof(marked), c->left ? "%1$s %2$s" : "%2$s%1$s", c->title,
			 c->mark);
		titles[j].text = marked;
	}
	put_row(t, out, indent, titles);
	if (with_units)
		put_row(t, out, indent, units);
}

/* Names the hidden columns under the table, so that a user can widen the terminal. */
static void put_hidden(const struct table *t, struct output *out)
{
	char *names = NULL;
	FILE *to = NULL;

	for (unsigned j = 0; j < t->column_count; j++) {
		const char *unit = t->columns[j].unit;

		if (!t->hidden[j])
			continue;
		if (!to)
			to = text_open(&names);
		fprintf(to, "%s%s%s", ftell(to) ? ", " : "", t->columns[j].title,
			unit && *unit == '/' ? unit : "");
	}
	if (!to)
		return;
	fclose(to);
	output_wrapped(out, STYLE_DIM, 2, "(no room here for: %s)", names);
	free(names);
}

/* ---- HTML ---- */

/* unit: the second line of a title; NULL: none. */
static void put_html_cell(const struct column *c, FILE *to, const char *element,
			  const struct cell *cell, const char *unit)
{
	fprintf(to, "<%s class=\"%s %s\">", element, c->left ? "left" : "right",
		render_class(cell->style));
	render_escape(to, cell->text ? cell->text : "");
	if (unit) {
		fputs("<br/>", to);
		render_escape(to, unit);
	}
	fprintf(to, "</%s>", element);
}

/* cells NULL: the header. */
static void put_html_row(const struct table *t, FILE *to, const struct cell *cells)
{
	fputs("<tr>", to);
	for (unsigned j = 0; j < t->column_count; j++) {
		const struct column *c = &t->columns[j];
		const struct cell title = { (char *)c->title, STYLE_BOLD };

		if (t->widths[j])
			put_html_cell(c, to, cells ? "td" : "th", cells ? &cells[j] : &title,
				      cells ? NULL : c->unit);
	}
	fputs("</tr>\n", to);
}

/* A heading ends the table, so each part has its own header. */
static void put_html(const struct table *t, FILE *to)
{
	static const char end[] = "</tbody></table></div>\n";
	bool begun = false;

	for (unsigned i = 0; i < t->row_count; i++) {
		const struct row *row = &t->rows[i];

		if (row->heading.text) {
			fputs(begun ? end : "", to);
			fputs("<h3>", to);
			render_escape(to, row->heading.text);
			fputs("</h3>\n", to);
		} else if (!begun) {
			fputs("<div class=\"scroll\"><table>\n<thead>", to);
			put_html_row(t, to, NULL);
			fputs("</thead>\n<tbody>\n", to);
		}
		begun = !row->heading.text;
		if (begun)
			put_html_row(t, to, row->cells);
	}
	fputs(begun ? end : "", to);
}

void table_print(struct table *t, struct output *out, unsigned indent, bool header)
{
	measure_columns(t);
	if (out->html) {
		put_html(t, out->file);
		table_clear(t);
		fflush(out->file);
		return;
	}
	fit(t, out, indent);
	if (header)
		put_header(t, out, indent);
	for (unsigned i = 0; i < t->row_count; i++) {
		const struct row *row = &t->rows[i];

		if (row->heading.text)
			output_text(out, row->heading.style, "%s\n", row->heading.text);
		else
			put_row(t, out, indent, row->cells);
	}
	if (header && !out->terse)
		put_hidden(t, out);
	table_clear(t);
	fflush(out->file);
}

bool table_finish(struct table *t, struct output *out, unsigned indent)
{
	bool any = t->row_count > 0;

	if (any)
		table_print(t, out, indent, true);
	table_free(t);
	return any;
}
