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

#include "generator_result.h"
#include "histogram.h"

/* The load generator of an interval, if a command was run and measured. */
struct measure_generator {
	const char *name;               /* "": unknown */
	struct generator_result result; /* all 0: its output was not understood */
	/* Of the generator and its children; wall_ns 0: none was run. */
	uint64_t wall_ns, cpu_ns;
	uint64_t lived_ns;    /* from its start to its end, load or not; 0: unknown */
	uint64_t busiest_ns;  /* CPU time of its busiest thread, by samples */
	double peak;          /* the most that a thread used of a CPU in 100 ms; 0: unknown */
	uint64_t shared_cpus; /* CPUs on which both it and the listener may run */
	/* Its CPUs that are another hardware thread of a core of the listener's; 0 if
	 * shared_cpus is not. */
	uint64_t sibling_cpus;
	/* The number of requests that it printed but that contradicts its rate or the listener's
	 * counts: result.requests is unknown (0) then.  See measure_check_requests(). */
	uint64_t refused_requests;
	bool elsewhere; /* on another host than the listener */
	/* Each host's part if it ran on several: result is their sum.  NULL: one host.  See
	 * generator_sum.h. */
	const json_t *hosts;
	double overlap;     /* the part of their time in which all of them had load */
	uint64_t spread_ns; /* from the calls until the last host had reported its start */
};

/* Is the time of softirqs and interrupts part of the CPU time of the threads that they interrupt?
 * It is unless the kernel has CONFIG_IRQ_TIME_ACCOUNTING. */
enum measure_irq_time { IRQ_TIME_UNKNOWN, IRQ_TIME_IN_THREADS, IRQ_TIME_APART };

/* The whole machine over the interval, all CPUs together; all 0: unknown. */
struct measure_machine {
	uint64_t cpus, total_ns, idle_ns, steal_ns; /* steal_ns: taken by the hypervisor */
	uint64_t softirq_ns;                        /* includes hardware interrupts */
	uint64_t served_softirq_ns;                 /* of the listener's CPUs; 0 also if unknown */
	uint64_t pressure_ns; /* in which some thread waited for a CPU; 0 also if unknown */
	enum measure_irq_time irq_time;
};

/* The network interface through which the clients of a listener came to its host. */
struct measure_link {
	const char *interface;            /* "": unknown, or loopback */
	uint64_t speed_bps;               /* bits per second, in each direction; 0: unknown */
	uint64_t received_bps, sent_bps;  /* bits on the wire, see nic_link.h */
	uint64_t segments, retransmitted; /* of TCP, of that host */
};

/* Which visit of a listener an interval is.  Visits of one run and round are compared with each
 * other; intervals are visits of the same row only if their setup and build are the same. */
struct measure_visit {
	const char *run;   /* names one run of `compare`; "": unknown */
	const char *setup; /* a hash of command, host, and the listener's keys; "": unknown */
	const char *build; /* of the daemon; "": unknown */
	uint64_t round, position; /* from 1 on; 0: unknown */
	uint64_t seed;            /* of the order of visits; 0: unknown */
	/* When the listener's counters were 0, of a daemon that serves several visits; the
	 * configuration's number; 1: either of them, or the listener's workers, changed within the
	 * visit.  All 0: unknown. */
	uint64_t since_ns, generation, changed;
	uint64_t failed; /* visits of the row, in all of its run, in which COMMAND failed */
};

struct measure {
	const char *label, *listener, *engine, *service, *operation; /* "" when unknown */
	/* Rows of the same pair are compared with each other alone: the listener's name in several
	 * builds.  "": of no pair. */
	const char *pair;
	const json_t *features, *stores; /* arrays of names, or NULL */
	const json_t *tls;               /* its library and cipher; NULL: without tls */
	bool joined; /* its operation names all that count in its visit: see measures_merge() */
	bool batch;  /* an operation is a batch (what one receive or send moved), not a request */
	uint64_t interval_ns;
	uint64_t count, errors;  /* of this operation */
	uint64_t listener_count; /* of all the listener's operations */
	uint64_t workers;        /* threads that serve; 0: unknown */
	uint64_t connections;    /* the most that were open at once, by samples; 0: unknown */
	/* Bytes of the service, without what TLS adds. */
	uint64_t bytes_in, bytes_out;
	uint64_t cpu_ns, syscalls, turns;
	uint64_t handshakes, handshake_cpu_ns; /* of TLS, the latter a part of cpu_ns */
	uint64_t switches;                     /* context switches of its threads; 0: unknown */
	uint64_t wakeups;                      /* the voluntary ones of these: the thread slept */
	/* Counted in user space and the kernel; where that refuses, in user space alone.  0:
	 * unknown. */
	uint64_t cycles, instructions, user_instructions;
	/* Reads of exports whose latency was sampled, and those of them that found zeros; 0 also if
	 * the document has several listeners. */
	uint64_t sampled_reads, zero_reads;
	uint64_t datagrams_in, frames_in;    /* of UDP; of the former, those as frames (af_xdp) */
	uint64_t cpu_user_ns, cpu_system_ns; /* parts of cpu_ns; both 0: unknown */
	uint64_t kernel_cpu_ns;              /* a part of cpu_ns: of the kernel's own threads */
	struct histogram_sum latency;
	struct histogram_sum turn; /* lengths of sampled turns of the listener's workers */
	struct measure_generator generator;
	struct measure_machine machine;
	struct measure_link link;
	struct measure_visit visit;
	const json_t *conditions; /* see conditions.h; NULL: unknown */
	/* Set by measures_merge(): the intervals whose sum this row is, owned.  visit_count 0: the
	 * row is a single interval. */
	struct measure **visits;
	unsigned visit_count;
	json_t *source; /* owns the texts above, except label when it was passed in */
};

struct measures {
	struct measure **rows;
	unsigned count;
	double within; /* the relative difference that counts as none; 0: WITHIN_DEFAULT */
	bool borrows;  /* the visits of its rows belong to other rows: see measures_merged() */
	json_t *unavailable; /* see measures_take_unavailable(); NULL: none */
	json_t *minor;       /* "nbd block_status": see measures_merge(); NULL: none */
};

void measures_free(struct measures *m);
void measure_free(struct measure *row); /* one that has been taken out of its list */
/* Adds the row of another operation of the same interval, and frees it. */
void measure_join(struct measure *to, struct measure *row);

/* An empty row at the end, which m owns. */
struct measure *measures_add(struct measures *m);

/* Appends the differences of two documents, in the order of `after`.  The counters of a listener
 * that is missing in `before`, or has another since_ns there (replaced by a reload), count from
 * zero.  `label` is borrowed. */
void measures_delta(struct measures *m, const json_t *before, const json_t *after,
		    uint64_t interval_ns, const char *label);

/* Nanoseconds between two documents, by the daemon's clock; -ESTALE when the daemon was
 * restarted in between. */
int measures_interval(const json_t *before, const json_t *after, uint64_t *ret_interval_ns);

/* How many operations a listener has done, by its part of a document. */
uint64_t measure_operations(const json_t *listener);

/* Keeps only the rows of the named listeners, in the order of the names (a JSON array of texts). */
void measures_select(struct measures *m, const json_t *names);

/* The engine with the features that the configuration asks for: `io_uring+sqpoll`. */
struct phrase {
	char text[80];
};
struct phrase measure_engine_name(const struct measure *row);

/* True: the listener was unavailable, so zeros in its row are not measurements. */
bool measure_unavailable(const struct measure *row);

/* Drops the rows of operations with a count of zero, except the first of a listener
 * without any operations. */
void measures_drop_idle(struct measures *m);

/* Drops the rows of listeners without operations. */
void measures_drop_silent(struct measures *m);

/* Makes each unavailable listener's rows one object {"name","reason"} in m->unavailable. */
void measures_take_unavailable(struct measures *m);

/* Adds the buckets of a document's latency_ns object; false: invalid. */
bool measure_add_latency(struct histogram_sum *sum, const json_t *latency);

/* The CPU time that is divided by requests, operations or bytes: without TLS handshakes, which are
 * the price of connections. */
uint64_t measure_serving_ns(const struct measure *row);
