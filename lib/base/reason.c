/* Formatting of error messages.  Pure.  See reason.h. */
#include "reason.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int reason_set(struct reason *reason, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(reason->text, sizeof(reason->text), format, args);
	va_end(args);
	return error;
}

const char *reason_fix(const char *text)
{
	const char *semicolon = strstr(text, "; ");

	return semicolon && semicolon[2] ? semicolon + 2 : NULL;
}
