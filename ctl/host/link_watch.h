/* The traffic of this host's network interfaces while a load generator runs on it, whose daemon is
 * on another host. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct link_watch {
	json_t *names;     /* of the interfaces; NULL: they are not looked at */
	json_t *documents; /* samples in order of time, in the form of GetStats */
	uint64_t next_ns, step_ns;
};

/* Takes the first sample; wanted false: all functions do nothing, and link_watch_end() returns
 * NULL. link_watch_end() must be called in both cases. */
void link_watch_begin(struct link_watch *w, bool wanted);

/* Takes a sample, if it is time for one; to be called often.  idle: there was no load so far, and
 * the last sample becomes the first. */
void link_watch_look(struct link_watch *w, bool idle);

/* The interface with the most bytes as link_of() describes it, with the facts of its driver as
 * `nic`: a new reference.  NULL: no interface but loopback had traffic. */
json_t *link_watch_end(struct link_watch *w);
