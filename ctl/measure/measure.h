/* The cost of an interval: one row per operation of a listener, from two GetStats documents or from
 * a file of saved rows.  Pure: no daemon, no output.
 *
 * Counts are exact.  Latencies are sampled, so a row's histogram has at most as many values as it
 * has operations.  The cost (CPU, system calls, turns, bytes) is the listener's; when it served
 * several operations each row carries all of it, to be divided by listener_count. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "generator.h"
#include "histogram.h"

/* The load generator of an interval, if a command was run and measured. */
struct measure_generator {
	const char *name;               /* "": unknown */
	struct generator_result result; /* all 0: its output was not understood */
	uint64_t wall_ns, cpu_ns;       /* of it and its children; wall_ns 0: none was run */
	uint64_t busiest_ns;            /* CPU time of its busiest thread, as far as seen */
	uint64_t shared_cpus;           /* CPUs on which both it and the listener may run */
};

/* The whole machine over the interval, all CPUs together; all 0: unknown. */
struct measure_machine {
	uint64_t cpus, total_ns, idle_ns, softirq_ns; /* softirq: with hardware interrupts */
};

/* Softirqs over the interval, by the ports of listeners; all 0: unknown. */
struct measure_softirq {
	uint64_t receive_ns;     /* of packets to the listener */
	uint64_t transmit_ns;    /* by drivers, of packets from it */
	uint64_t inside_ns;      /* the part of these two that is in the listener's CPU time */
	uint64_t peer_ns;        /* of its clients on this host: the other way round */
	uint64_t peer_inside_ns; /* the part of it that is in the listener's CPU time */
	uint64_t unattributed_ns, total_ns; /* of the whole machine */
};

struct measure {
	const char *label, *listener, *engine, *service, *operation; /* "" when unknown */
	const json_t *features, *stores;                             /* arrays of names, or NULL */
	bool batch; /* an operation is what one receive or send moved, not a request */
	uint64_t interval_ns;
	uint64_t count, errors;  /* of this operation */
	uint64_t listener_count; /* of all the listener's operations */
	uint64_t workers;        /* threads that serve; 0: unknown */
	uint64_t bytes_in, bytes_out, cpu_ns, syscalls, turns;
	uint64_t cpu_user_ns, cpu_system_ns; /* parts of cpu_ns; both 0: unknown */
	struct histogram_sum latency;
	struct measure_generator generator;
	struct measure_machine machine;
	struct measure_softirq softirq;
	const json_t *timeline;   /* see timeline.h; NULL: unknown */
	const json_t *conditions; /* see conditions.h; NULL: unknown */
	/* Of measures_merge(): the intervals that were summed up here, owned.  visit_count 0: this
	 * is a single interval. */
	struct measure **visits;
	unsigned visit_count;
	json_t *source; /* owns the texts above, except label when it was passed in */
};

struct measures {
	struct measure **rows;
	unsigned count;
};

void measures_free(struct measures *m);

/* An empty row at the end, which m owns. */
struct measure *measures_add(struct measures *m);

/* Appends the differences of two documents; rows in the order of `after`.  A listener that `before`
 * lacks, or has with another since_ns (a reload replaced it), counts from zero.  `label` is
 * borrowed. */
void measures_delta(struct measures *m, const json_t *before, const json_t *after,
		    uint64_t interval_ns, const char *label);

/* Nanoseconds between two documents, by the daemon's clock; -ESTALE when the daemon was restarted
 * in between. */
int measures_interval(const json_t *before, const json_t *after, uint64_t *ret_interval_ns);

bool measures_has(const struct measures *m, const char *listener);

/* Keeps only the rows of the named listeners, in the order of the names (a JSON array of texts). */
void measures_select(struct measures *m, const json_t *names);

/* The listener could not be served: its row has no measured zeros. */
bool measure_unavailable(const struct measure *row);

/* Takes conditions over, for the row and all others of its listener and interval. */
void measures_set_conditions(struct measures *m, const struct measure *row, json_t *conditions);

/* Drops the rows of such listeners; the listeners' documents, in an array, a new reference. */
json_t *measures_take_unavailable(struct measures *m);

/* Drops the rows of operations with a count of zero; of a listener that did nothing, all but the
 * first. */
void measures_drop_idle(struct measures *m);

/* Drops the rows of listeners that did nothing. */
void measures_drop_silent(struct measures *m);

/* Sums the operations of each listener into its first row, whose operation becomes "" then. */
void measures_merge_operations(struct measures *m);

/* Sums rows of the same label, listener, engine, service and operation into one, which keeps them
 * as its visits. */
void measures_merge(struct measures *m);

/* A saved row; a new reference, and back: 0 or -EINVAL. */
json_t *measure_to_json(const struct measure *row);
int measures_add_json(struct measures *m, json_t *source);

/* Reads a file of saved rows, one per line.  0, or -errno; with -EINVAL *ret_line is the line that
 * is no row. */
int measures_load(struct measures *m, FILE *from, unsigned *ret_line);

/* Adds the buckets of a document's latency_ns object; false when it makes no sense. */
bool measure_add_latency(struct histogram_sum *sum, const json_t *latency);

/* The share `quantile` of the values is at most *ret_ns; false when they are too few to tell: a
 * percentile needs a value beyond it. */
bool measure_quantile(const struct measure *row, double quantile, uint64_t *ret_ns);

/* The round trip that `quantile` of the requests took at most, as the generator said: the median of
 * the visits.  False: it did not. */
bool measure_trip(const struct measure *row, double quantile, uint64_t *ret_ns);

/* Per second, per operation and so on; 0 when nothing ran. */
double measure_rate(const struct measure *row);       /* operations/s */
double measure_bandwidth(const struct measure *row);  /* bytes/s, in and out */
double measure_cpu_per_op(const struct measure *row); /* ns */
double measure_bytes_per_op(const struct measure *row);
double measure_syscalls_per_op(const struct measure *row);
double measure_ops_per_turn(const struct measure *row);
double measure_cpu_share(const struct measure *row); /* 1: one CPU all the time */
