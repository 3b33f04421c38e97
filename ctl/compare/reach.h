/* Whether the generator's hosts reach a listener, said before it is visited, and whether it lets
 * them in. */
#pragma once
#include "ctl.h"

struct generator_run;
struct sampler;
struct target;

/* Connects to the listener from each host, if generator and daemon are on different ones and it is
 * one over TCP, and notes the addresses by which they come.  CTL_DONE, or CTL_UNREACHABLE with the
 * reason printed. */
int reach_try(struct ctl *ctl, struct target *target);

/* After a run that failed, or did nothing: says which host the listener does not allow.  target
 * NULL: of all listeners.  The last sample has been taken. */
void reach_tell_denied(const struct ctl *ctl, const struct sampler *s, const struct target *target,
		       const struct generator_run *run);
