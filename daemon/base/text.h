/* Texts of any length. */
#pragma once

/* As asprintf(), but never NULL: without memory the process aborts.  The caller frees it. */
char *text_new(const char *format, ...) __attribute__((format(printf, 1, 2)));
