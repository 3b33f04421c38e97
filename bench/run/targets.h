/* The listeners that `compare` visits, and where they are. */
#pragma once
#include <stdbool.h>

#include "ctl.h"

/* Where a host of the generator reaches a listener. */
struct target_address {
	char *host, *port, *uri; /* "": it has none */
	const char *lacks;       /* the reason why one of these is ""; NULL: none is */
	bool by_ssh; /* the listener has a wildcard; `host` is the address that ssh uses */
};

struct target {
	const char *listener, *service;   /* borrowed from the status document */
	struct target_address *addresses; /* for each host of the generator */
};

struct targets {
	json_t *status;
	struct target *list;
	unsigned count;
	unsigned hosts;    /* of the generator */
	const char *build; /* the name of the daemon's build; NULL: it has none */
	json_t *absent;    /* listeners that cannot be visited, with the reason why; borrowed */
};

/* Asks the daemon for its listeners, and selects those that ctl->words names, or all.  served:
 * `nbbench run` has started the daemon, so all of its listeners are meant.  *t is zeroed but for
 * `build` and `absent`. An exit code; targets_free() in any case. */
int targets_find(struct targets *t, struct ctl *ctl, bool served);
void targets_free(struct targets *t);

/* The name of a listener's rows: NAME, or `NAME (BUILD)`.  A new reference. */
json_t *targets_row(const struct targets *t, const char *listener);

/* COMMAND with its placeholders filled, once for each host of the generator: a NULL-terminated list
 * of NULL-terminated commands, to be freed by generator_command_free().  target NULL: no listener
 * is visited.  Returns NULL with an error printed if the listener lacks a value. */
char ***generator_command_fill(const struct ctl *ctl, char *const *argv,
			       const struct target *target);
void generator_command_free(char ***commands);
