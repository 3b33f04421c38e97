/* Texts of any length, of which the caller is the owner, and the first lines of files.  Without
 * memory the process aborts. */
#pragma once
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

/* As asprintf() and vasprintf(), but never NULL. */
char *text_new(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *text_new_arguments(const char *format, va_list arguments)
	__attribute__((format(printf, 1, 0)));
/* As open_memstream(), but never NULL: *ret_text is set when the stream has been closed, which is
 * to be done by the same thread. */
FILE *text_open(char **ret_text);
/* Closes such a stream.  Returns *text; NULL: nothing was written, and *text is freed. */
char *text_close(FILE *to, char **text);

/* Appends to the text in an array of `bytes` bytes, as far as there is room. */
void text_append(char *text, size_t bytes, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The first line of a file, without its end, cut to `bytes` with the NUL; false: it cannot be read,
 * and text is as it was. */
bool text_file_line(const char *path, char *text, int bytes);
/* text_file_line() of the first line that begins with `begin`; false: there is none, and text is
 * undefined. */
bool text_find_line(const char *path, const char *begin, char *text, int bytes);
