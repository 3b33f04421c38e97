/* Counters of one worker: exact, monotonic, one writer (the worker), any number of readers.  There
 * is no snapshot across counters.
 *
 * Each is a COUNTER() or a GAUGE() of the schema, base/statistics.h. */
#pragma once
#include <stdatomic.h>
#include <stdint.h>

#include "histogram.h"
#include "service.h"
#include "statistics.h"

struct operation_stats {
	_Atomic uint64_t count, errors;
	struct histogram latency; /* sampled: see conn_op_begin() */
};

struct stats {
#define KEPT(member, ...) _Atomic uint64_t member;
#define SPAN(member, ...) struct histogram member;
	LISTENER_STATISTICS(KEPT, KEPT, STATISTICS_NONE, STATISTICS_NONE, SPAN, STATISTICS_ROWS,
			    STATISTICS_ROWS)
#undef KEPT
#undef SPAN
	_Atomic uint64_t batch_delay_ns; /* the batch delay in force (see batch.h); of a listener
					    the largest of its workers' */
	struct operation_stats operations[SERVICE_OPERATIONS_MAX];
};

/* A plain load, add and store without a lock prefix, since each counter has one writer.  NB_STATS=0
 * removes counting, for `make bench` to measure its cost; stat_always_add() is for counters on
 * which the daemon's own behaviour depends. */
#ifndef NB_STATS
#define NB_STATS 1
#endif
#define stat_always_add(counter, n)                                                                \
	atomic_store_explicit(&(counter),                                                          \
			      atomic_load_explicit(&(counter), memory_order_relaxed) + (n),        \
			      memory_order_relaxed)
#define stat_add(counter, n)                                                                       \
	do {                                                                                       \
		if (NB_STATS)                                                                      \
			stat_always_add(counter, n);                                               \
	} while (0)
#define stat_load(counter) atomic_load_explicit(&(counter), memory_order_relaxed)
