/* Takes GetStats while a command runs, some ten times a second, for the throughput over time. */
#pragma once
#include <stdint.h>

#include "ctl.h"

struct sampler {
	struct ctl *ctl;
	json_t *parameters; /* of GetStats; NULL: all listeners */
	json_t *documents;  /* an array, in the order of time */
	uint64_t next_ns, step_ns;
};

/* Takes the first document, and parameters over.  An exit code; 0: to be ended with
 * sampler_free(). */
int sampler_init(struct sampler *s, struct ctl *ctl, json_t *parameters);
/* Takes another one if it is time; often. */
void sampler_look(struct sampler *s);
/* Takes the last one; an exit code. */
int sampler_end(struct sampler *s);
void sampler_free(struct sampler *s);

/* Borrowed. */
const json_t *sampler_first(const struct sampler *s);
const json_t *sampler_last(const struct sampler *s);
