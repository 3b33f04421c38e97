/* Calls GetStats about ten times a second while a command runs, for the throughput over time. */
#pragma once
#include <stdint.h>

#include "ctl.h"

struct sampler {
	struct ctl *ctl;
	json_t *parameters; /* parameters of GetStats; NULL: all listeners */
	json_t *documents;  /* array of replies in order of time */
	uint64_t next_ns, step_ns;
};

/* Takes ownership of parameters, and gets the first document.  An exit code; after 0 the caller
 * calls sampler_free(). */
int sampler_init(struct sampler *s, struct ctl *ctl, json_t *parameters);
/* To be called often: gets another document if it is due. */
void sampler_look(struct sampler *s);
/* Gets the last document.  An exit code. */
int sampler_end(struct sampler *s);
void sampler_free(struct sampler *s);

/* Borrowed references. */
const json_t *sampler_first(const struct sampler *s);
const json_t *sampler_last(const struct sampler *s);
