/* See text.h. */
#include "text.h"

#include <stdlib.h>
#include <string.h>

char *text_new_arguments(const char *format, va_list arguments)
{
	char *text;

	if (vasprintf(&text, format, arguments) < 0)
		abort();
	return text;
}

char *text_new(const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	text = text_new_arguments(format, arguments);
	va_end(arguments);
	return text;
}

FILE *text_open(char **ret_text)
{
	/* not used, but open_memstream() needs a place to write it */
	static _Thread_local size_t bytes;
	FILE *to = open_memstream(ret_text, &bytes);

	if (!to)
		abort();
	return to;
}

char *text_close(FILE *to, char **text)
{
	fclose(to);
	if (**text)
		return *text;
	free(*text);
	return NULL;
}

void text_append(char *text, size_t bytes, const char *format, ...)
{
	size_t used = strlen(text);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text + used, bytes - used, format, arguments);
	va_end(arguments);
}

bool text_find_line(const char *path, const char *begin, char *text, int bytes)
{
	FILE *from = fopen(path, "re");
	bool found = false;

	while (from && !found && fgets(text, bytes, from))
		found = !strncmp(text, begin, strlen(begin));
	if (found)
		text[strcspn(text, "\n")] = '\0';
	if (from)
		fclose(from);
	return found;
}

bool text_file_line(const char *path, char *text, int bytes)
{
	return text_find_line(path, "", text, bytes);
}
