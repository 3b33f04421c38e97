/* Reload as a transaction: the file is read, checked and compared with the running configuration;
 * new listeners and exports are prepared; only if nothing has failed do they become the server's,
 * and those that they replace drain.  Listeners that do not serve are started again, even if the
 * configuration has not changed; the generation counts configurations.  Main thread, one reload at
 * a time, complete when the function returns (except for draining). */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct server;

/* The last reload. */
struct reload {
	bool refused;
	json_t *result; /* reload_document(); NULL: there was none */
};

enum reload_outcome {
	RELOAD_DONE,
	RELOAD_REFUSED, /* nothing has changed, because of errors */
	RELOAD_RESTART, /* nothing has changed, because a changed key needs a restart */
};

struct reload_answer {
	/* Array of texts, owned by the caller: by outcome the changes, the errors, or the keys that
	 * need a restart. */
	json_t *lines;
	const char *message; /* short reason of a failure */
};

/* dry_run: only reports the changes; binds and opens nothing. */
enum reload_outcome reload_run(struct server *s, bool dry_run, struct reload_answer *answer);

/* Starts the listener again from the configuration in force if it does not serve;
 * name NULL: all listeners that were drained. answer->lines: their names.  All or
 * nothing: RELOAD_DONE or RELOAD_REFUSED. */
enum reload_outcome reload_resume(struct server *s, const char *name, struct reload_answer *answer);

/* {"generation","ok","state","time","errors"}; a new reference. */
json_t *reload_document(const struct server *s);
