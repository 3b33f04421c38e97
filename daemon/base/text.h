/* Texts of any length. */
#pragma once
#include <stddef.h>
#include <stdio.h>

/* As asprintf(), but never NULL: without memory the process aborts.  The caller frees it. */
char *text_new(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* As open_memstream(), but never NULL: without memory the process aborts.  The text is the caller's
 * when the stream has been closed. */
FILE *text_open(char **ret_text, size_t *ret_bytes);
