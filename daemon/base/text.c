/* See text.h. */
#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

bool file_line(const char *path, char *text, int bytes)
{
	FILE *from = fopen(path, "re");
	bool found = from && fgets(text, bytes, from);

	if (found)
		text[strcspn(text, "\n")] = '\0';
	if (from)
		fclose(from);
	return found;
}
