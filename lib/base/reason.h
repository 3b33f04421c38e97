/* An error message for users: what failed, why, and, behind a semicolon, how to fix it.  For the
 * log, the control socket and the status of unavailable objects. */
#pragma once

enum { REASON_MAX = 384 };

struct reason {
	char text[REASON_MAX];
};

/* Formats into reason and returns error, so that callers can write `return reason_set(...)`. */
int reason_set(struct reason *reason, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The part of the text that says what to do, behind its first semicolon.  NULL: none. */
const char *reason_fix(const char *text);
