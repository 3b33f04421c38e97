/* The control socket: errors that several methods answer with.  See control_internal.h. */
#include <stdarg.h>
#include <stdio.h>

#include "control_internal.h"
#include "suggest.h"

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

bool control_lacks_listener(struct varlink_call *call, const json_t *names)
{
	const struct listeners *all = &control_server(call)->listeners;
	struct suggestion near = { .text = json_string_value(names) };

	for (size_t i = 0; i < json_array_size(names); i++) {
		near.text = json_string_value(json_array_get(names, i));
		if (!listeners_find(all, near.text))
			break;
	}
	if (!near.text || listeners_find(all, near.text))
		return false;
	for (unsigned i = 0; i < all->count; i++)
		suggest_try(&near, all->list[i]->name);
	control_error(call, "NoSuchListener", near.text, "there is no listener '%s'%s", near.text,
		      suggest_hint(&near));
	return true;
}
