/* Samples of the daemon's counters, of the machine and of the load generator while it runs: for the
 * throughput over time, and for the span in which there was load.  A generator may start for
 * seconds before its first request, and go on after its last: rates are of the span, as the
 * generator's own are. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "child.h"
#include "ctl.h"
#include "layers.h"
#include "measure.h"
#include "softirq.h"

/* The whole machine at one time: its CPU time, and on request softirq time by listener. */
struct sample {
	struct measure_machine cpu;
	struct softirq_reading *softirqs; /* NULL: not requested */
	struct use use;
};

struct sampler {
	struct ctl *ctl;
	struct softirq *softirq;
	struct layers *layers;
	json_t *parameters;        /* parameters of GetStats; NULL: all listeners */
	json_t *documents;         /* array of replies in order of time */
	struct sample *samples;    /* one for each document */
	uint64_t next_ns, step_ns; /* next_ns UINT64_MAX: when the reply has come, or never */
	int failed;                /* an exit code: there will be no more, and why was printed */
	bool asked;                /* the next sample is awaited */
	/* ... and what has come of it; NULL: not yet.  machine: with -H, of the other host. */
	json_t *stats, *machine;
	struct use use;      /* ... and this was used when it was asked for */
	bool generator;      /* measure the span of load, not the whole interval */
	bool loaded;         /* the first operation has been seen */
	json_t *begin;       /* the first of all documents */
	uint64_t silence_ns; /* when to say that no connection has come; 0: not to be said */
};

/* Takes ownership of parameters, and the first sample.  softirq, layers NULL: not requested.  An
 * exit code; after 0 the caller calls sampler_free(). */
int sampler_init(struct sampler *s, struct ctl *ctl, json_t *parameters, struct softirq *softirq,
		 struct layers *layers, bool generator);
/* Asks for a sample when one is due, and takes it when the daemon has answered.  See struct
 * watcher. */
struct watcher sampler_watcher(struct sampler *s);
/* Takes the last sample, and leaves those of the span of load.  An exit code. */
int sampler_end(struct sampler *s, const struct use *use);
void sampler_free(struct sampler *s);

/* Borrowed references: the samples between which the load was. */
const json_t *sampler_first(const struct sampler *s);
const json_t *sampler_last(const struct sampler *s);
/* Appends the rows of that span to m, with what happened over its time and their links, see
 * link_set(). label NULL: none.  An exit code: the daemon may have been restarted. */
int sampler_rows(const struct sampler *s, const char *label, const json_t *interfaces,
		 uint64_t link_bps, struct measures *m);
/* Sets the machine's part in the rows of m from `first` on, and the generator's CPU time in those
 * that have one. */
void sampler_set(const struct sampler *s, struct measures *m, unsigned first);
