/* What goes through this host's network interfaces while a load generator runs on it: the way to a
 * daemon on another host. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct link_watch {
	json_t *names;     /* of the interfaces; NULL: they are not looked at */
	json_t *documents; /* samples in order of time, in the form of GetStats */
	uint64_t next_ns, step_ns;
};

/* Takes the first sample; wanted false: nothing is done, and link_watch_end() tells nothing.
 * link_watch_end() in both cases. */
void link_watch_begin(struct link_watch *w, bool wanted);

/* Takes a sample, if it is time for one; to be called often.  idle: there was no load so far, and
 * the last sample becomes the first. */
void link_watch_look(struct link_watch *w, bool idle);

/* A new reference: the interface with the most bytes, as link_of() has it, with what its driver
 * tells as `nic`.  NULL: nothing went through any, but for loopback. */
json_t *link_watch_end(struct link_watch *w);
