/* The errors of the interface's own, which several methods answer with. */
#include <stdarg.h>
#include <stdio.h>

#include "control_internal.h"

/* listener: the one that the error is about; "": none. */
void control_error(struct varlink_call *call, const char *name, const char *listener,
		   const char *format, ...)
{
	char error[64];
	json_t *message;
	va_list args;

	va_start(args, format);
	message = json_vsprintf(format, args);
	va_end(args);
	snprintf(error, sizeof(error), INTERFACE ".%s", name);
	varlink_error(call, error,
		      json_pack("{s:s, s:o}", "listener", listener, "message", message));
}
