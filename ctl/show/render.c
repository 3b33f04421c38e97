/* Tables, wrapped text, JSON on a stream.  See render.h. */
#include "render.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "printable.h"
#include "util.h"

enum { COLUMNS_MAX = 32, GAP = 2, WIDTH_MIN = 40, WIDTH_FILE = 100 };

struct cell {
	char *text; /* NULL: empty */
	enum style style;
};

struct row {
	struct cell heading; /* with text: the whole row */
	struct cell cells[COLUMNS_MAX];
};

struct table {
	const struct column *columns;
	unsigned column_count, cell_count; /* cells of the last row that are set */
	struct row *rows;
	unsigned row_count;
	unsigned widths[COLUMNS_MAX]; /* 0: no cell with text so far */
	bool hidden[COLUMNS_MAX];
	unsigned gap, apart_gap;
};

/* ---- Output ---- */

/* The width to which paragraphs are wrapped, also for files, whose width is 0. */
static unsigned good_width(const struct output *out)
{
	return out->width ? out->width : WIDTH_FILE;
}

static void *must(void *memory)
{
	if (!memory) {
		fputs("nbctl: out of memory\n", stderr);
		exit(EXIT_FAILURE);
	}
	return memory;
}

static unsigned terminal_width(int fd)
{
	const char *columns = getenv("COLUMNS");
	struct winsize size;

	if (columns && atoi(columns) > 0)
		return (unsigned)MAX(atoi(columns), WIDTH_MIN);
	if (isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		return MAX(size.ws_col, WIDTH_MIN);
	return 0;
}

void output_init(struct output *out, FILE *file)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
	int fd = fileno(file);

	*out = (struct output){ .file = file };
	out->width = terminal_width(fd);
	out->colour = isatty(fd) && !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;
}

/* A '?' for each character that is not printable: names from other sources must not control the
 * terminal, nor change the order in which it shows the rest. */
static void put_clean(FILE *file, const char *text)
{
	bool printable;

	while (*text) {
		size_t bytes = printable_next(text, &printable);

		fwrite(printable ? text : "?", 1, printable ? bytes : 1, file);
		text += bytes;
	}
}

static bool style_begin(struct output *out, enum style style)
{
	static const char *const codes[] = {
		[STYLE_PLAIN] = "",        [STYLE_BOLD] = "\033[1m",  [STYLE_DIM] = "\033[2m",
		[STYLE_GOOD] = "\033[32m", [STYLE_WARN] = "\033[33m", [STYLE_BAD] = "\033[31m",
	};

	if (!out->colour || style == STYLE_PLAIN)
		return false;
	fputs(codes[style], out->file);
	return true;
}

static void style_end(struct output *out, bool begun)
{
	if (begun)
		fputs("\033[0m", out->file);
}

static void put_styled(struct output *out, enum style style, const char *text)
{
	bool begun = style_begin(out, style);

	put_clean(out->file, text);
	style_end(out, begun);
}

static char *format_text(const char *format, va_list arguments)
{
	char *text;

	return must(vasprintf(&text, format, arguments) < 0 ? NULL : text);
}

void output_text(struct output *out, enum style style, const char *format, ...)
{
	va_list arguments;
	char *text, *line, *next;

	va_start(arguments, format);
	text = format_text(format, arguments);
	va_end(arguments);
	for (line = text; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (*line)
			put_styled(out, style, line);
		if (next)
			putc('\n', out->file);
	}
	free(text);
}

void output_wrapped(struct output *out, enum style style, unsigned indent, const char *format, ...)
{
	unsigned column, lead;
	bool first = true; /* word of its line */
	bool begun = style_begin(out, style);
	va_list arguments;
	char *text, *word, *rest;

	va_start(arguments, format);
	text = format_text(format, arguments);
	va_end(arguments);
	lead = (unsigned)strspn(text, " ");
	column = (unsigned)fprintf(out->file, "%*s", (int)lead, "");
	for (word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		unsigned width = text_width(word);

		if (!first && column + 1 + width > good_width(out)) {
			fprintf(out->file, "\n%*s", (int)indent, "");
			column = indent;
			first = true;
		}
		if (!first) {
			putc(' ', out->file);
			column++;
		}
		put_clean(out->file, word);
		column += width;
		first = false;
	}
	style_end(out, begun);
	putc('\n', out->file);
	free(text);
}

void output_json(struct output *out, const json_t *document, bool one_line)
{
	/* Not ASCII is escaped: a terminal acts on some of it. */
	json_dumpf(document, out->file,
		   JSON_ENSURE_ASCII | (one_line ? JSON_COMPACT : JSON_INDENT(2)));
	putc('\n', out->file);
	fflush(out->file);
}

unsigned text_width(const char *text)
{
	unsigned width = 0;

	for (; *text; text++)
		width += ((unsigned char)*text & 0xc0) != 0x80;
	return width;
}

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
	cell->text = format_text(format, arguments);
	va_end(arguments);
	cell->style = style;
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
	row->heading.text = format_text(format, arguments);
	va_end(arguments);
	row->heading.style = style;
	t->cell_count = t->column_count;
}

bool table_is_empty(const struct table *t)
{
	return t->row_count == 0;
}

static void measure_columns(struct table *t)
{
	for (unsigned j = 0; j < t->column_count; j++) {
		const struct column *c = &t->columns[j];
		unsigned width = MAX(c->width_min, text_width(c->title));
		bool empty = t->widths[j] == 0 && c->optional;

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

static void fit(struct table *t, const struct output *out, unsigned indent)
{
	int j;

	memset(t->hidden, 0, sizeof(t->hidden));
	t->gap = t->apart_gap = GAP;
	if (table_width(t, indent) > good_width(out))
		t->gap = 1;
	if (table_width(t, indent) > good_width(out))
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
			pad = pad + width - used; /* a title with its mark is wider by one */
		if (used) {
			fprintf(out->file, "%*s", (int)pad, "");
			put_styled(out, cells[j].style, text);
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

static void put_hidden(const struct table *t, struct output *out)
{
	char *names = NULL;
	size_t bytes;
	FILE *to = NULL;

	for (unsigned j = 0; j < t->column_count; j++) {
		const char *unit = t->columns[j].unit;

		if (!t->hidden[j])
			continue;
		if (!to)
			to = must(open_memstream(&names, &bytes));
		fprintf(to, "%s%s%s", ftell(to) ? ", " : "", t->columns[j].title,
			unit && *unit == '/' ? unit : "");
	}
	if (!to)
		return;
	fclose(to);
	output_wrapped(out, STYLE_DIM, 2, "(no room here for: %s)", names);
	free(names);
}

/* ---- Markdown ---- */

static void put_markdown_cell(struct output *out, const char *text)
{
	fputs(" ", out->file);
	for (; text && *text; text++) {
		if (strchr("|*_`\\", *text))
			putc('\\', out->file);
		putc(*text, out->file);
	}
	fputs(" |", out->file);
}

static void put_markdown_row(const struct table *t, struct output *out, const struct cell *cells)
{
	putc('|', out->file);
	for (unsigned j = 0; j < t->column_count; j++)
		if (t->widths[j])
			put_markdown_cell(out, cells[j].text);
	putc('\n', out->file);
}

static void put_markdown_header(const struct table *t, struct output *out)
{
	putc('|', out->file);
	for (unsigned j = 0; j < t->column_count; j++)
		if (t->widths[j])
			fprintf(out->file, " %s%s%s |", t->columns[j].title,
				t->columns[j].unit ? " " : "",
				t->columns[j].unit ? t->columns[j].unit : "");
	fputs("\n|", out->file);
	for (unsigned j = 0; j < t->column_count; j++)
		if (t->widths[j])
			fputs(t->columns[j].left ? " --- |" : " ---: |", out->file);
	putc('\n', out->file);
}

/* In Markdown a heading ends the table, so each part has its own header. */
static void print_markdown(struct table *t, struct output *out)
{
	bool begun = false;

	for (unsigned i = 0; i < t->row_count; i++) {
		const struct row *row = &t->rows[i];

		if (row->heading.text) {
			fprintf(out->file, "%s**%s**\n", i ? "\n" : "", row->heading.text);
			begun = false;
			continue;
		}
		if (!begun) {
			if (i)
				putc('\n', out->file);
			put_markdown_header(t, out);
		}
		begun = true;
		put_markdown_row(t, out, row->cells);
	}
}

void table_print(struct table *t, struct output *out, unsigned indent, bool header)
{
	measure_columns(t);
	if (out->markdown) {
		print_markdown(t, out);
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
