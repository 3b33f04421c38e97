/* The keys of a listener's section that its workers need.  Constant while a worker runs, but for
 * those that a reload changes live. */
#pragma once
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine.h"
#include "keys.h"

/* Queue pair types of transport rdma: reliable connections, datagrams, unreliable connections. */
enum qp_type { QP_RC, QP_UD, QP_UC };

/* Does a call of io_uring_enter() submit all that is queued?  RING_BATCH_NO is for comparison. */
enum ring_batch { RING_BATCH_YES, RING_BATCH_NO };

/* How engine epoll asks for events; all but EPOLL_LEVEL are for comparison, see epoll_modes.c. */
enum epoll_mode { EPOLL_LEVEL, EPOLL_EDGE, EPOLL_ONESHOT, EPOLL_PER_OPERATION, EPOLL_MODES };

/* How late answers are sent, see delay.h.  DELAY_UNIFORM has its least and greatest value, the
 * others have one: the delay, or its mean. */
enum delay_kind { DELAY_CONSTANT, DELAY_UNIFORM, DELAY_EXPONENTIAL };
struct delay_options {
	uint64_t kind; /* enum delay_kind */
	uint64_t ns[2];
};
/* Answers that are due in the first `ns` of each every_ns wait for their end; 0: none do. */
struct stall_options {
	uint64_t ns, every_ns;
};

/* The key table writes into it. */
struct worker_options {
	uint64_t buffer_size, buffers; /* chunk size in bytes, chunks per worker */
	uint64_t idle_timeout_ns;      /* 0: never */
	uint64_t busy_poll_ns;         /* how long to spin before sleeping; 0: sleep at once */
	/* Longest delay for requests to gather; 0: none; UINT64_MAX: auto. */
	uint64_t batch_delay_ns;
	/* bytes; sends of at least this size use SEND_ZC; 0: never. */
	uint64_t zero_copy_min;
	uint64_t features_off; /* bits of enum engine_feature, within FEATURES_OPTIONAL */
	bool datagrams;        /* the transport has datagrams only */
	unsigned qp_type;      /* enum qp_type */
	uint64_t peers_max;    /* clients of an engine that forgets them; 0: no limit */
	bool srq;              /* connections share a receive queue (SRQ) */
	uint64_t region_size;  /* bytes, maximum that a service lends to a connection */
	/* How long the device may collect completions; 0: not at all. */
	uint64_t cq_moderation_ns;
	unsigned ring_batch; /* enum ring_batch */
	unsigned epoll_mode; /* enum epoll_mode */
	bool sqpoll;
	uint64_t sqpoll_idle_ns;
	uint64_t sqpoll_cpu; /* UINT64_MAX: anywhere */
	struct delay_options delay;
	struct stall_options stall;
	cpu_set_t cpus; /* empty: wherever the process may run */
	/* The struct that service->keys describe; zeroes if it has none. */
	_Alignas(max_align_t) unsigned char service[SERVICE_OPTIONS_MAX];
};

/* Are the clients told apart by their datagrams, over UDP or RDMA? */
static inline bool options_datagrams(const struct worker_options *options)
{
	return options->datagrams || options->qp_type == QP_UD;
}
