/* Parser of INI syntax: from bytes to sections and settings, each with its line.  Knows no keys.
 *
 * Uses inih behind a reader of our own, which passes on only lines that inih parses correctly: see
 * ini.c.  Full-line comments start with `;` or `#`, inline ones with white space and `;`.  CRLF and
 * a UTF-8 byte order mark are fine. */
#pragma once
#include <stddef.h>

enum {
	INI_LINE_MAX = 198, /* bytes without the line end, the size of inih's buffer; comments may
			       be longer */
	INI_ERROR_MAX = 512,
};

/* Called by ini_read() in the order of the lines; the texts are valid until they return. */
struct ini_events {
	/* The text between `[` and `]`, without the white space around it; may be empty. */
	void (*section)(void *context, unsigned line, const char *text);
	/* Only after a valid section header; value may be empty. */
	void (*setting)(void *context, unsigned line, const char *key, const char *value);
	/* `expected ..., got '...'`; the line is ignored, as are settings after a bad header. */
	void (*error)(void *context, unsigned line, const char *text);
};

void ini_read(const char *bytes, size_t length, const struct ini_events *events, void *context);
