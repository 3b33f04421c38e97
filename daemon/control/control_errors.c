/* The control socket: errors that several methods answer with.  See control_internal.h. */
#include <stdarg.h>
#include <stdio.h>

#include "control_internal.h"
#include "suggest.h"

/* Ends the call with an error of our interface.  listener: the one that the error is about; "":
 * none. */
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

const char *control_unknown_listener(struct server *s, const json_t *names)
{
	size_t count = json_array_size(names);

	if (json_is_string(names) && !listeners_find(&s->listeners, json_string_value(names)))
		return json_string_value(names);
	for (size_t i = 0; i < count; i++) {
		const char *name = json_string_value(json_array_get(names, i));

		if (!listeners_find(&s->listeners, name))
			return name;
	}
	return NULL;
}

void control_no_such_listener(struct varlink_call *call, const char *name)
{
	const struct server *s = control_server(call);
	struct suggestion near = { .text = name };

	for (unsigned i = 0; i < s->listeners.count; i++)
		suggest_try(&near, s->listeners.list[i]->name);
	control_error(call, "NoSuchListener", name, "there is no listener '%s'%s", name,
		      suggest_hint(&near));
}
