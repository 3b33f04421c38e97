/* The reason why something cannot be done: what, why, and how to mend it.  For the log, the control
 * socket and the status of what is unavailable. */
#pragma once

enum { REASON_MAX = 384 };

struct reason {
	char text[REASON_MAX];
};

/* Formats into reason, returns error (so that `return reason_set(...)` reads well). */
int reason_set(struct reason *reason, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Where such a text says what to do: behind its first semicolon.  NULL: it does not. */
const char *reason_mend(const char *text);
