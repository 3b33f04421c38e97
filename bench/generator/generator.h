/* The result that a load generator prints about its own run: requests, bytes, latency percentiles
 * as the client saw them.  Pure: text in, numbers out; recognised by the program's name and the
 * form of its output, of the versions in Debian 12. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "generator_result.h"

/* The name of the generator that argv (NULL-terminated) runs; NULL: not a known one.  Skips
 * `taskset -c LIST`, `numactl`, `nice`, `env`, `timeout` and the like. */
const char *generator_name(char *const *argv);

/* The option with which the generator of argv prints its version, and the program, as argv has it;
 * NULL: not a known one. */
const char *generator_version(char *const *argv, const char **ret_program);

/* The resolution of the round trips that the generator of this name prints; 0: too fine to matter.
 */
uint64_t generator_step_ns(const char *name);

/* Parses `output` (NUL-terminated), which argv wrote to stdout.  False: no result was
 * recognised, and *ret_result is untouched. */
bool generator_parse(char *const *argv, const char *output, struct generator_result *ret_result);
