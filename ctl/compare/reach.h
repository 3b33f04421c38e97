/* Checks that the generator's hosts can connect to a listener, before it is visited, and finds
 * hosts that its `allow` refuses. */
#pragma once
#include "ctl.h"

struct generator_run;
struct sampler;
struct target;

/* If generator and daemon are on different hosts, and the listener is over TCP: connects to it from
 * each of the generator's hosts, and notes the address from which each came.  CTL_DONE, or
 * CTL_UNREACHABLE with the reason printed. */
int reach_try(struct ctl *ctl, struct target *target);

/* After a run that failed or made no operation: names the hosts that the listener refuses, by the
 * counters of the last sample.  target NULL: all listeners. */
void reach_tell_denied(const struct ctl *ctl, const struct sampler *s, const struct target *target,
		       const struct generator_run *run);
