/* The transaction of a reload: everything new is prepared and then becomes the server's, or nothing
 * changes.  Private to the files of reload; main thread. */
#pragma once
#include "config_diff.h"
#include "exports.h"
#include "json.h"
#include "server.h"

/* The new state, which becomes the server's when the reload commits. */
struct reload_next {
	struct server *server;
	struct config *config;
	struct config_diff diff;
	struct listener **listeners; /* listeners that stay, and new ones */
	/* going_count listeners that will end, then those that leave already; NULL-terminated */
	struct listener **going;
	struct exports exports;
	unsigned listener_count, going_count;
	/* NULL: a reload.  Else a resume of this listener alone; "": of all drained ones. */
	const char *resume;
};

/* Carries out n, of which server, config, diff and resume are set.  True: done, and the listeners
 * that serve again are added to lines; false: nothing has changed, and all errors are added.  The
 * caller frees the configuration that is not in use then. */
bool reload_apply(struct reload_next *n, json_t *lines);

static inline void reload_add_line(json_t *lines, const char *text)
{
	json_array_append_new(lines, json_text(text));
}
