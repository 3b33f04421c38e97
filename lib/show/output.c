/* Wrapped text and JSON on a stream.  See render.h; render.c has the tables. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "printable.h"
#include "render.h"
#include "text.h"
#include "util.h"

enum { WIDTH_MIN = 40, WIDTH_FILE = 100 };

unsigned output_width(const struct output *out)
{
	return out->width ? out->width : WIDTH_FILE;
}

/* 0: the output is no terminal, and $COLUMNS does not tell a width. */
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

void render_escape(FILE *to, const char *text)
{
	bool printable;

	while (*text) {
		size_t bytes = printable_next(text, &printable);

		if (*text == '&')
			fputs("&amp;", to);
		else if (*text == '<')
			fputs("&lt;", to);
		else if (*text == '>')
			fputs("&gt;", to);
		else if (*text == '"')
			fputs("&quot;", to);
		else if (printable || *text == '\t' || *text == '\n')
			fwrite(text, 1, bytes, to);
		else
			fputs("\xef\xbf\xbd", to);
		text += bytes;
	}
}

const char *render_class(enum style style)
{
	static const char *const names[] = {
		[STYLE_PLAIN] = "plain", [STYLE_BOLD] = "bold", [STYLE_DIM] = "dim",
		[STYLE_GOOD] = "good",   [STYLE_WARN] = "warn", [STYLE_BAD] = "bad",
	};

	return names[style];
}

static void put_paragraph(struct output *out, enum style style, const char *text)
{
	fprintf(out->file, "<p class=\"%s\">", render_class(style));
	render_escape(out->file, text);
	fputs("</p>\n", out->file);
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

void output_styled(struct output *out, enum style style, const char *text)
{
	bool begun = style_begin(out, style);

	put_clean(out->file, text);
	style_end(out, begun);
}

/* The text, which the caller frees; NULL: it was printed as a paragraph of HTML. */
static char *plain_text(struct output *out, enum style style, const char *format, va_list arguments)
{
	char *text = text_new_arguments(format, arguments);

	if (!out->html)
		return text;
	put_paragraph(out, style, text);
	free(text);
	return NULL;
}

void output_text(struct output *out, enum style style, const char *format, ...)
{
	va_list arguments;
	char *text, *line, *next;

	va_start(arguments, format);
	text = plain_text(out, style, format, arguments);
	va_end(arguments);
	/* Line by line, as a line's end is a control character, which put_clean() would replace. */
	for (line = text; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (*line)
			output_styled(out, style, line);
		if (next)
			putc('\n', out->file);
	}
	free(text);
}

void output_wrapped(struct output *out, enum style style, unsigned indent, const char *format, ...)
{
	unsigned column, lead;
	bool first = true; /* word of its line */
	bool begun;
	va_list arguments;
	char *text, *word, *rest;

	va_start(arguments, format);
	text = plain_text(out, style, format, arguments);
	va_end(arguments);
	if (!text)
		return;
	begun = style_begin(out, style);
	lead = (unsigned)strspn(text, " ");
	column = (unsigned)fprintf(out->file, "%*s", (int)lead, "");
	for (word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		unsigned width = text_width(word);

		/* A word that is longer than a line stands on one of its own. */
		if (!first && column + 1 + width > output_width(out)) {
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
	/* Escapes all characters but ASCII: a terminal acts on some of them. */
	json_dumpf(document, out->file,
		   JSON_ENSURE_ASCII | (one_line ? JSON_COMPACT : JSON_INDENT(2)));
	putc('\n', out->file);
	fflush(out->file);
}

/* Counts the bytes that begin a character: those that continue one are 10xxxxxx in UTF-8. */
unsigned text_width(const char *text)
{
	unsigned width = 0;

	for (; *text; text++)
		width += ((unsigned char)*text & 0xc0) != 0x80;
	return width;
}
