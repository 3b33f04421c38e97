/* INI syntax, on top of inih.  Main thread; pure apart from the callbacks.
 *
 * inih (r55 and later) accepts invalid input silently: it splits a line longer than its buffer into
 * two settings, cuts at a NUL byte, glues an indented line to the setting before it, accepts `[x]
 * junk` and `[]`, cuts a section's name after 49 bytes, puts the keys behind `[noclose` into the
 * section before, takes `=v` and `key: v`, and returns only its first error.  So our reader
 * checks each line first and passes only well-formed settings and empty lines to inih.  Sections
 * are handled here for the sake of long names; inih splits settings and strips comments.
 *
 * <ini.h> is inih's: this folder is on the include path of tests, but not of this file. */
#include "ini.h"

#include <ini.h> /* NOLINT(readability-duplicate-include): another file */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "util.h"

enum ini_state { INI_NOWHERE, INI_IN_SECTION, INI_IN_BAD_SECTION };

struct reader {
	const char *at, *end;
	unsigned line;
	enum ini_state state;
	const struct ini_events *events;
	void *context;
};

struct slice {
	const char *text;
	size_t bytes;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool is_key_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '_' || c == '.';
}

static struct slice skip_blanks(struct slice s)
{
	while (s.bytes && is_blank(*s.text))
		s = (struct slice){ s.text + 1, s.bytes - 1 };
	return s;
}

static struct slice trim_end(struct slice s)
{
	while (s.bytes && is_blank(s.text[s.bytes - 1]))
		s.bytes--;
	return s;
}

/* Takes the next line, without its end (LF, CR LF or the end of the file). */
static struct slice take_line(struct reader *r)
{
	size_t left = (size_t)(r->end - r->at);
	const char *lf = memchr(r->at, '\n', left);
	struct slice s = { r->at, lf ? (size_t)(lf - r->at) : left };

	r->at += s.bytes + (lf != NULL);
	r->line++;
	if (lf && s.bytes && s.text[s.bytes - 1] == '\r')
		s.bytes--;
	if (r->line == 1 && s.bytes >= 3 && !memcmp(s.text, "\xef\xbb\xbf", 3))
		s = (struct slice){ s.text + 3, s.bytes - 3 };
	return s;
}

/* Returns false, so that `return reject(...)` reads well. */
__attribute__((format(printf, 2, 3))) static bool reject(struct reader *r, const char *format, ...)
{
	char text[INI_ERROR_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	r->events->error(r->context, r->line, text);
	return false;
}

/* Length of s to be shown in a message, at most a line's. */
static int shown(struct slice s)
{
	return (int)MIN(s.bytes, (size_t)INI_LINE_MAX);
}

static bool check_bytes(struct reader *r, struct slice s)
{
	for (size_t i = 0; i < s.bytes; i++) {
		unsigned char c = (unsigned char)s.text[i];

		if (c == '\r')
			return reject(r,
				      "expected lines that end with LF or CR LF, got a CR alone");
		if ((c < ' ' && c != '\t') || c == 0x7f)
			return reject(r, "expected text, got the byte 0x%02x", c);
	}
	return true;
}

/* Handles a section's header; after an invalid one the settings are ignored. */
static void read_section(struct reader *r, struct slice s)
{
	const char *close = memchr(s.text, ']', s.bytes);
	char name[INI_LINE_MAX + 1];
	struct slice inside, behind, junk;

	r->state = INI_IN_BAD_SECTION;
	if (!close) {
		reject(r, "expected [SECTION], got '%.*s'", shown(s), s.text);
		return;
	}
	behind = (struct slice){ close + 1, (size_t)(s.text + s.bytes - close - 1) };
	junk = skip_blanks(behind);
	if (junk.bytes && (junk.bytes == behind.bytes || *junk.text != ';')) {
		reject(r, "expected nothing behind [SECTION], got '%.*s'", shown(junk), junk.text);
		return;
	}
	inside = trim_end(skip_blanks((struct slice){ s.text + 1, (size_t)(close - s.text - 1) }));
	memcpy(name, inside.text, inside.bytes);
	name[inside.bytes] = '\0';
	r->state = INI_IN_SECTION;
	r->events->section(r->context, r->line, name);
}

/* True: a valid setting, which inih may parse. */
static bool check_setting(struct reader *r, struct slice s)
{
	struct slice rest = s;

	while (rest.bytes && is_key_char(*rest.text))
		rest = (struct slice){ rest.text + 1, rest.bytes - 1 };
	if (rest.bytes == s.bytes || !skip_blanks(rest).bytes || *skip_blanks(rest).text != '=')
		return reject(r, "expected 'KEY = VALUE', got '%.*s'", shown(s), s.text);
	if (r->state == INI_NOWHERE)
		return reject(r, "expected a [SECTION] before the first key, got '%.*s'", shown(s),
			      s.text);
	return r->state == INI_IN_SECTION;
}

/* Handles every line but settings; true: the line is a valid setting. */
static bool read_line(struct reader *r, struct slice s, size_t bytes_max)
{
	struct slice text = skip_blanks(s);

	if (!check_bytes(r, s) || !text.bytes || *text.text == ';' || *text.text == '#')
		return false;
	if (s.bytes > bytes_max)
		return reject(r, "expected at most %zu bytes in a line, got %zu", bytes_max,
			      s.bytes);
	if (text.bytes != s.bytes)
		return reject(r, "expected no white space at the start of a line, got '%.*s'",
			      shown(s), s.text);
	if (*s.text != '[')
		return check_setting(r, s);
	read_section(r, s);
	return false;
}

/* The reader for inih, which works like fgets(): one line per call. */
static char *next_line(char *to, int to_size, void *stream)
{
	struct reader *r = stream;
	struct slice s;

	if (r->at == r->end)
		return NULL;
	s = take_line(r);
	if (!read_line(r, s, MIN((size_t)INI_LINE_MAX, (size_t)to_size - 2)))
		s.bytes = 0;
	memcpy(to, s.text, s.bytes);
	memcpy(to + s.bytes, "\n", 2);
	return to;
}

static int deliver(void *context, const char *section, const char *key, const char *value)
{
	struct reader *r = context;

	(void)section;
	r->events->setting(r->context, r->line, key, value);
	return 1;
}

void ini_read(const char *bytes, size_t length, const struct ini_events *events, void *context)
{
	struct reader r = {
		.at = bytes, .end = bytes + length, .events = events, .context = context
	};
	int line = ini_parse_stream(next_line, &r, deliver, &r);

	/* inih refused the line although the checks above accepted it; it may be
	 * built with other options. */
	if (line > 0)
		r.line = (unsigned)line;
	if (line != 0)
		reject(&r, "expected 'KEY = VALUE', got a line that inih does not read");
}
