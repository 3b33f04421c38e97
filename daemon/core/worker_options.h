/* The keys of a listener's section that its workers need.  Constant while a worker runs, but for
 * those that a reload changes live. */
#pragma once
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine.h"
#include "keys.h"

/* The key table writes into it. */
struct worker_options {
	uint64_t buffer_size, buffers; /* chunk size in bytes, chunks per worker */
	uint64_t idle_timeout_ns;      /* 0: never */
	/* How long to spin before sleeping; 0: sleep at once; UINT64_MAX: auto. */
	uint64_t busy_poll_ns;
	/* Longest delay for requests to gather; 0: none; UINT64_MAX: auto. */
	uint64_t batch_delay_ns;
	uint64_t features_off; /* bits of enum engine_feature, within engine_features_optional */
	bool datagrams;        /* the transport has datagrams only */
	uint64_t peers_max;    /* clients that the worker may have; 0: no limit */
	uint64_t region_size;  /* bytes, maximum of memory that a client may access by RDMA */
	cpu_set_t cpus;        /* empty: wherever the process may run */
	/* The keys of all services and engines, also of those that the listener does not use: a
	 * store's ring has the options of rings.  Unused ones are the last. */
	struct key_values values[KEY_TABLES_MAX];
};

/* The struct that the table describes; zeroes if the options were made without it, as in tests.  It
 * lives as long as the options.  For set-up: a data path keeps what it needs. */
static inline const void *options_of(const struct worker_options *options,
				     const struct key_table *table)
{
	static const struct key_values none;

	for (unsigned i = 0; i < KEY_TABLES_MAX && options->values[i].table; i++)
		if (options->values[i].table == table)
			return options->values[i].bytes;
	return none.bytes;
}

/* How long the kernel is asked to poll a network card's queue before a sleep.  0 with `auto`: the
 * kernel would poll before each sleep, whatever earlier polls have brought. */
static inline uint64_t options_kernel_polls_ns(const struct worker_options *options)
{
	return options->busy_poll_ns == UINT64_MAX ? 0 : options->busy_poll_ns;
}

/* Copies the struct that the table describes; for options that come from no file. */
static inline void options_set(struct worker_options *options, const struct key_table *table,
			       const void *values)
{
	struct key_values *v = options->values;

	while (v->table && v->table != table)
		v++;
	v->table = table;
	memcpy(v->bytes, values, table->bytes);
}
