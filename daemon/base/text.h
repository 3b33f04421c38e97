/* Texts of any length, and the first lines of files. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* As asprintf(), but never NULL: without memory the process aborts.  The caller frees it. */
char *text_new(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* As open_memstream(), but never NULL: without memory the process aborts.  The text is the caller's
 * when the stream has been closed. */
FILE *text_open(char **ret_text, size_t *ret_bytes);

/* The first line of a file, without its end, cut to `bytes` with the NUL; false: it cannot be read,
 * and text is as it was. */
bool file_line(const char *path, char *text, int bytes);
