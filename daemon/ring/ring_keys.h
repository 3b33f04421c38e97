/* The keys of engine `io_uring`, most of which are of its ring. */
#pragma once
#include "worker_options.h"

/* Does a call of io_uring_enter() submit all that is queued?  RING_BATCH_NO is for comparison. */
enum ring_batch { RING_BATCH_YES, RING_BATCH_NO };

struct ring_options {
	bool sqpoll;
	uint64_t sqpoll_idle_ns;
	uint64_t sqpoll_cpu; /* UINT64_MAX: anywhere */
	uint64_t batch;      /* enum ring_batch */
	/* bytes; sends of at least this size use SEND_ZC; 0: never. */
	uint64_t zero_copy_min;
};
extern const struct key_table ring_key_table;

/* The struct in a worker's options. */
static inline const struct ring_options *ring_options(const struct worker_options *options)
{
	return options_of(options, &ring_key_table);
}
