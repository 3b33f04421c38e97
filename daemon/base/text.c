/* See text.h. */
#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

char *text_new(const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		abort();
	va_end(arguments);
	return text;
}

FILE *text_open(char **ret_text, size_t *ret_bytes)
{
	FILE *to = open_memstream(ret_text, ret_bytes);

	if (!to)
		abort();
	return to;
}
