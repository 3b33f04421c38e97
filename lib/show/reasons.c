/* Prints which listeners are unavailable, and why.  See reasons.h. */
#include "reasons.h"

#include <stdlib.h>

#include "field.h"

bool reasons_render(struct output *out, const json_t *listeners)
{
	json_t *names_of = json_object(), *listener, *names; /* by the reason */
	const char *reason;
	bool any;
	size_t i;

	json_array_foreach(listeners, i, listener) {
		reason = field_text(listener, "reason");
		if (*reason && !json_object_get(names_of, reason))
			json_object_set_new(names_of, reason, json_array());
		json_array_append(json_object_get(names_of, reason), field_get(listener, "name"));
	}
	json_object_foreach(names_of, reason, names) {
		char *text = field_show(names);

		output_wrapped(out, STYLE_WARN, 2, "%s: unavailable: %s", text, reason);
		free(text);
	}
	any = json_object_size(names_of) > 0;
	json_decref(names_of);
	return any;
}
