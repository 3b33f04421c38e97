/* Samples of the daemon's counters, of the machine and of the load generator while it runs: for the
 * throughput over time, and for the span in which there was load.  A generator may need seconds
 * before its first request and after its last one: rates are over the span of load, as the
 * generator's own are.
 *
 * One sample is asked for at a time, and nothing waits for its answer: while a command runs, the
 * loop of child_run() calls the sampler as its watcher.  The sampler owns the documents and
 * samples; the first and the last document that remain at the end are the ends of the span. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "child.h"
#include "ctl.h"
#include "measure.h"

/* The CPU time of the whole machine and of the generator at one time, what the machine's network
 * interfaces have carried, and what its packages have used. */
struct sample {
	struct measure_machine cpu;
	json_t *link;   /* of interface_read(); NULL: unknown */
	json_t *energy; /* of energy_read(); NULL: unknown */
	struct use use;
};

struct sampler {
	struct ctl *ctl;
	json_t *interfaces;        /* of the daemon's host, see interface.h */
	json_t *parameters;        /* parameters of GetStats; NULL: all listeners */
	json_t *documents;         /* array of replies in order of time */
	struct sample *samples;    /* one for each document */
	uint64_t next_ns, step_ns; /* when to ask again; next_ns UINT64_MAX: not before the reply */
	int failed;                /* an exit code, the reason was printed: no more samples */
	bool asked;                /* a sample was asked for and is not complete yet */
	/* The parts of that sample that have come; NULL: not yet.  machine: only with -H. */
	json_t *stats, *machine;
	struct use use;      /* CPU time of the generator when that sample was asked for */
	bool loaded;         /* the first operation has been seen */
	json_t *begin;       /* the first of all documents */
	uint64_t silence_ns; /* when to warn that no connection has come; 0: no warning */
};

/* Takes ownership of parameters, and the first sample.  interfaces: of interface_describe(),
 * borrowed.  An exit code; after 0 the caller calls sampler_free(). */
int sampler_init(struct sampler *s, struct ctl *ctl, json_t *parameters, json_t *interfaces);
/* Asks for a sample when one is due, and takes it when the daemon has answered.
 * See struct watcher. */
struct watcher sampler_watcher(struct sampler *s);
/* Takes the last sample, and leaves those of the span of load.  An exit code. */
int sampler_end(struct sampler *s, const struct use *use);
void sampler_free(struct sampler *s);

/* Appends the rows of the span of load to m, with their links, see nic_link_set().
 * label NULL: none.  An exit code: the daemon may have been restarted. */
int sampler_rows(const struct sampler *s, const char *label, struct measures *m);
/* Sets the CPU time of the machine in the rows of m from `first` on, and that of the generator in
 * the rows that have one. */
void sampler_set(const struct sampler *s, struct measures *m, unsigned first);
/* The energy of the span of load, of host_energy_spent(). */
json_t *sampler_energy(const struct sampler *s);
