/* The listeners that `compare` visits, and where they are. */
#pragma once
#include <stdbool.h>

#include "ctl.h"

/* Where a host of the generator reaches a listener. */
struct target_address {
	char *host, *port, *uri; /* "": it has none */
	const char *lacks;       /* ... why not */
	bool by_ssh;             /* the listener has every address; this is the one that ssh uses */
	char source[64];         /* from which address; "": not known */
};

struct target {
	const char *listener, *service;   /* borrowed from the status document */
	struct target_address *addresses; /* for each host of the generator */
	bool tcp;                         /* it is over TCP */
	bool timed_out;                   /* it is not visited again */
	bool told;                        /* ... for a round before this one, and that was said */
};

struct targets {
	json_t *status;
	struct target *list;
	unsigned count;
	unsigned hosts;    /* of the generator */
	const char *build; /* the name of the daemon's build; NULL: it has none */
	json_t *absent;    /* listeners that cannot be visited, with the reason why; borrowed */
};

/* Asks the daemon for its listeners: those that ctl->words names, or all.  served: it serves for
 * this alone, so all of its listeners are meant.  *t is zeroed but for `build` and `absent`.  An
 * exit code; targets_free() in any case. */
int targets_find(struct targets *t, struct ctl *ctl, bool served);
void targets_free(struct targets *t);

/* By what a listener's rows are called: NAME, or `NAME (BUILD)`.  A new reference. */
json_t *targets_row(const struct targets *t, const char *listener);

/* The listener, of t->status, is not visited.  The table names it with the reason, which is the
 * daemon's if that has one. */
void targets_leave(struct targets *t, const json_t *listener, const char *reason);

/* COMMAND with its placeholders filled: one for each host of the generator, NULL-terminated as each
 * of them is; to be freed by generator_command_free().  target NULL: no listener is visited.  NULL,
 * with an error printed: the listener lacks a value. */
char ***generator_command_fill(const struct ctl *ctl, char *const *argv,
			       const struct target *target);
void generator_command_free(char ***commands);
