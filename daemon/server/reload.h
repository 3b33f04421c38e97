/* Reload as a transaction: the file is read, checked and compared with what runs; what is new is
 * prepared; only when nothing has failed does it become the server's, and what it replaces drains.
 * Listeners that do not serve are begun again, whether or not the configuration has changed; the
 * generation is that of the configuration.
 * Main thread, one at a time, done when the function returns (but for draining). */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct config;
struct server;

/* How the last reload ended, so far. */
enum reload_state {
	RELOAD_STATE_NONE, /* there was none */
	RELOAD_STATE_DONE,
	RELOAD_STATE_UNCONFIRMED, /* done, and will be undone unless it is confirmed */
	RELOAD_STATE_REFUSED,
	RELOAD_STATE_UNDONE, /* it was not confirmed */
	RELOAD_STATE_KEPT,   /* nor could it be undone: what was not confirmed serves on */
};

/* The last reload, and the configuration before it while that may still come back. */
struct reload {
	enum reload_state state;
	uint64_t generation;     /* in force after it */
	json_t *time, *errors;   /* NULL: there was none */
	struct config *previous; /* NULL: nothing waits to be confirmed */
	sd_event_source *timer;
	unsigned confirm_s;
	uint64_t confirm_end_ns; /* CLOCK_MONOTONIC */
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

/* Makes that listener anew from the configuration in force, as a reload would, if it does not
 * serve; NULL: all that were drained.  answer->lines: their names.  All or nothing: RELOAD_DONE or
 * RELOAD_REFUSED. */
enum reload_outcome reload_resume(struct server *s, const char *name, struct reload_answer *answer);

/* For reload.c: notes how a reload ended, and tells the service manager.  Takes errors over. */
void reload_remember(struct server *s, enum reload_state state, json_t *errors);

/* Describes the last reload for a line of status: "; ...", or nothing. */
const char *reload_remark(const struct server *s);

/* {"generation","ok","state","confirm_within_s","time","errors"}; a new reference. */
json_t *reload_document(const struct server *s);

void reload_fini(struct server *s);
