/* The transaction of a reload: everything new is prepared, then it becomes the server's, or nothing
 * has changed.  Private to the files of reload; main thread. */
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
	struct listener **listeners; /* those that stay, and new ones */
	struct listener **going;     /* those that do not stay; NULL-terminated */
	struct exports exports;
	unsigned listener_count, going_count;
	/* NULL: a reload.  Otherwise this listener only is to serve again; "": all drained ones. */
	const char *resume;
};

/* Makes what n has of server, config, diff and resume the server's, and adds what serves again to
 * lines; or adds all errors.  The caller frees the configuration that is not used. */
bool reload_apply(struct reload_next *n, json_t *lines);

static inline void reload_add_line(json_t *lines, const char *text)
{
	json_array_append_new(lines, json_text(text));
}
