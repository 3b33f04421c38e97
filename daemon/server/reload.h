/* Reload as a transaction: the file is read, checked and compared with what runs; what is new is
 * prepared; only when nothing has failed does it become the server's, and what it replaces drains.
 * Main thread, one at a time, done when the function returns (but for draining). */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct config;
struct server;

/* The last reload, and the configuration before it while that may still come back. */
struct reload {
	bool ok;
	uint64_t generation;     /* in force after it */
	json_t *time, *errors;   /* NULL: there was none */
	struct config *previous; /* NULL: nothing waits to be confirmed */
	sd_event_source *timer;
	unsigned confirm_s;
};

struct reload_request {
	bool dry_run;       /* say what would change; binds and opens nothing */
	unsigned confirm_s; /* without reload_confirm() so soon it is undone; 0: needs none */
};

enum reload_outcome {
	RELOAD_DONE,
	RELOAD_REFUSED, /* all is as it was, as also with: */
	RELOAD_RESTART, /* something that a running server cannot change has changed */
};

struct reload_answer {
	/* Array of texts, the caller's: all that changed; all that was wrong; or what needs the
	 * restart. */
	json_t *lines;
	const char *message; /* why not, in short */
};

enum reload_outcome reload_run(struct server *s, const struct reload_request *request,
			       struct reload_answer *answer);

/* False: nothing waits for it. */
bool reload_confirm(struct server *s);

/* {"generation","ok","time","errors"}; a new reference. */
json_t *reload_document(const struct server *s);

void reload_fini(struct server *s);
