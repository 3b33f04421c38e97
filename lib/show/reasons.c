/* Prints which listeners are unavailable, and why.  See reasons.h. */
#include "reasons.h"

#include <stdlib.h>
#include <string.h>

#include "field.h"

static bool has_reason(const json_t *listener, const char *reason)
{
	return !strcmp(field_text(listener, "reason"), reason);
}

static bool is_shown(const json_t *listeners, size_t end, const char *reason)
{
	for (size_t i = 0; i < end; i++)
		if (has_reason(json_array_get(listeners, i), reason))
			return true;
	return false;
}

bool reasons_render(struct output *out, const json_t *listeners)
{
	json_t *listener, *other;
	bool any = false;
	size_t i, j;

	json_array_foreach(listeners, i, listener) {
		const char *reason = field_text(listener, "reason");
		json_t *names;
		char *text;

		any |= *reason != '\0';
		if (!*reason || is_shown(listeners, i, reason))
			continue;
		names = json_array();
		json_array_foreach(listeners, j, other)
			if (has_reason(other, reason))
				json_array_append(names, field_get(other, "name"));
		text = field_show(names);
		output_wrapped(out, STYLE_WARN, 2, "%s: unavailable: %s", text, reason);
		free(text);
		json_decref(names);
	}
	return any;
}
