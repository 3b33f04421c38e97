/* The sum of a generator's results on several hosts that ran at once.  Pure.
 *
 * Each host counts and times its own part.  Clocks of hosts are never compared: a part ended when
 * its host's report reached nbbench. */
#pragma once
#include <jansson.h>

#include "generator.h"

struct generator_part {
	const char *host;                     /* as --on names it */
	struct generator_result result;       /* all 0: its output was not understood */
	uint64_t ended_ns;                    /* by nbbench's clock */
	uint64_t wall_ns, cpu_ns, busiest_ns; /* by its own, as in struct measure_generator */
	double peak;
};

struct generator_sum {
	/* Requests, bytes and errors are added up.  Rates are the sums over the time from the first
	 * start of load to its last end, so a host that ended early does not make the rate higher.
	 * The percentiles of all requests together cannot be computed from those of the hosts, but
	 * lie between their lowest and their highest: these are the highest.  All 0 if the result
	 * of any host is unknown. */
	struct generator_result result;
	double overlap; /* the part of that time in which all hosts had load, 0 to 1 */
};

struct generator_sum generator_sum(const struct generator_part *parts, unsigned count);

/* As rows save them: [{ "host": "c1", "requests": 1, ..., "latency_ns": [[0.99, 1]], "wall_ns": 1,
 * "cpu_ns": 1, "busiest_ns": 1, "peak": 0.1 }]; a new reference. */
json_t *generator_parts_to_json(const struct generator_part *parts, unsigned count);
