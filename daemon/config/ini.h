/* INI syntax: bytes in, sections and settings out, each with its line.  It knows no keys.
 *
 * It reads with inih, behind a reader of our own that lets through only lines which inih reads as
 * they look: see ini.c.  Full-line comments start with `;` or `#`, inline ones with white space and
 * `;`.  CRLF and a UTF-8 byte order mark are fine. */
#pragma once
#include <stddef.h>

enum {
	INI_LINE_MAX =
		198, /* bytes without the line end: what inih's buffer holds; not of comments */
	INI_ERROR_MAX = 512,
};

/* Called while ini_read() runs, in the order of the lines; the texts live until they return. */
struct ini_events {
	/* The text between `[` and `]`, without the white space around it; may be empty. */
	void (*section)(void *context, unsigned line, const char *text);
	/* Only behind a section whose header was well formed; value may be empty. */
	void (*setting)(void *context, unsigned line, const char *key, const char *value);
	/* `expected ..., got '...'`; the line has no other effect, except that the settings behind
	 * a header that is not well formed are left out. */
	void (*error)(void *context, unsigned line, const char *text);
};

void ini_read(const char *bytes, size_t length, const struct ini_events *events, void *context);
