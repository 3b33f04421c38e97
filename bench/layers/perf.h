/* Samples of all CPUs: perf_event_open(2).  On each CPU a timer, or a counter of cycles where the
 * machine has one, takes some thousand samples a second into a ring that is shared with the kernel.
 * The events belong to CPUs, not to threads: the kernel would have to start and stop a thread's
 * timer at each context switch, which would slow what is measured.  Main thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "reason.h"

enum perf_kind { PERF_CLOCK, PERF_CYCLES };
extern const char *const perf_kind_names[];

enum {
	PERF_HZ = 999
}; /* not a divisor of other timers' rates, or it would run in step with them */

struct perf {
	enum perf_kind kind;
	struct perf_cpu {
		int fd;
		void *ring;
	} * cpus;
	unsigned count;
};

/* Opens the events of all CPUs, which take no samples yet: 0, or -errno with the reason, which says
 * what to do.  perf_close() in any case. */
int perf_open(struct perf *ret, struct reason *reason);
void perf_close(struct perf *p);

/* on: starts sampling, and discards the samples that are in the rings; off: stops it. */
void perf_enable(struct perf *p, bool on);

struct perf_sample {
	pid_t tid;
	uint64_t time_ns;      /* CLOCK_MONOTONIC */
	uint64_t weight;       /* nanoseconds of a clock, or cycles */
	const uint64_t *chain; /* addresses, the innermost first, with PERF_CONTEXT_ markers */
	unsigned count;
};

/* The record of a sample, of `bytes` bytes behind its header, aligned as a uint64_t; false: it
 * is invalid.  Pure. */
bool perf_sample_parse(const void *body, size_t bytes, struct perf_sample *ret);

/* Takes the samples that are not newer than until_ns out of the rings, and calls take() for each;
 * returns the number of samples that were lost because a ring was full.  Newer samples stay in the
 * rings, which hold those of a second. */
uint64_t perf_read(struct perf *p, uint64_t until_ns,
		   void (*take)(void *context, const struct perf_sample *sample), void *context);
