/* Counters of one worker: exact, monotonic, one writer (the worker), any number of readers.
 *
 * To add one: a line here; it is then in GetStats (see control/document.c for its place there).
 * There is no snapshot across counters. */
#pragma once
#include <stdatomic.h>
#include <stdint.h>

#include "histogram.h"
#include "service.h"

/* X(name) */
#define STATS_COUNTERS(X)                                                                          \
	X(accepted)                                                                                \
	X(closed_peer)     /* the client ended it */                                               \
	X(closed_reset)    /* the client reset it */                                               \
	X(closed_idle)     /* idle-timeout */                                                      \
	X(closed_protocol) /* the client broke the protocol */                                     \
	X(closed_overrun)  /* its messages had used up all receives (iWARP) */                     \
	X(closed_drain)    /* still open when the drain ended */                                   \
	X(closed_error)    /* an error of this host: no memory, ... */                             \
	X(refused_limit)                                                                           \
	X(refused_denied)                                                                          \
	X(accept_paused) /* out of descriptors: accepting stopped until one was free */            \
	X(bytes_in)                                                                                \
	X(bytes_out)                                                                               \
	X(bytes_copied) /* in user space, by the core */                                           \
	X(turns)                                                                                   \
	X(gathered)    /* turns that waited for more requests: see gather.h */                     \
	X(starved)     /* times a connection found the pool empty */                               \
	X(tx_blocked)  /* times the peer did not take all that was sent */                         \
	X(throttled)   /* times receiving was paused because too much was held */                  \
	X(zero_copied) /* sends that the kernel did without a copy (SEND_ZC) */                    \
	STATS_WORK_POSTED(X)                                                                       \
	STATS_WORK_COMPLETED(X)                                                                    \
	X(wr_inline)    /* sends whose bytes were copied into the request */                       \
	X(wr_signalled) /* sends, reads and writes that asked for a completion */                  \
	X(doorbells)    /* calls that posted some */                                               \
	X(cq_polls)                                                                                \
	X(cq_completions)                                                                          \
	X(cq_events)                                                                               \
	X(cq_sleeps)         /* waits for any event */                                             \
	X(datagrams_dropped) /* who sent it holds too much, or may not */                          \
	STATS_DATAGRAMS(X)                                                                         \
	STATS_WORK_ERRORS(X)                                                                       \
	X(zero_copy_copied) /* SEND_ZC sends that the kernel copied after all */                   \
	STATS_SYSCALLS(X)

/* Of transport udp. */
#define STATS_DATAGRAMS(X)                                                                         \
	X(datagrams_in)                                                                            \
	X(datagrams_out)                                                                           \
	X(datagrams_truncated)  /* longer than buffer-size */                                      \
	X(datagrams_refused)    /* from an address that must not be answered */                    \
	X(datagrams_withheld)   /* replies: more than came from a stranger */                      \
	X(datagrams_unsent)     /* the host did not send it: no route, a firewall, ... */          \
	X(datagrams_overflowed) /* the socket's queue had no room */                               \
	X(datagrams_merged)     /* received as part of a larger one (GRO) */                       \
	X(datagrams_split)      /* sent as part of a larger one (GSO) */                           \
	X(peers_evicted)        /* clients that were forgotten for others */

/* Of engine rdma: work requests by opcode, posted, and completed as far as a completion tells. */
#define STATS_WORK_POSTED(X)                                                                       \
	X(wr_send)                                                                                 \
	X(wr_recv)                                                                                 \
	X(wr_read)                                                                                 \
	X(wr_write)
#define STATS_WORK_COMPLETED(X)                                                                    \
	X(wc_send)                                                                                 \
	X(wc_recv)                                                                                 \
	X(wc_read)                                                                                 \
	X(wc_write)

/* Completions without success, by status. */
#define STATS_WORK_ERRORS(X)                                                                       \
	X(wc_err_flushed) /* ended with their connection */                                        \
	X(wc_err_rnr)     /* gave up: the client had no receive posted */                          \
	X(wc_err_retry)   /* gave up: the client does not answer */                                \
	X(wc_err_length)  /* a message beyond its buffer */                                        \
	X(wc_err_access)  /* a key or a range that is not valid, here or there */                  \
	X(wc_err_other)

/* System calls made by the worker's thread, and by those that work for it. */
#define STATS_SYSCALLS(X)                                                                          \
	X(sys_accept)                                                                              \
	X(sys_recv)                                                                                \
	X(sys_send)                                                                                \
	X(sys_close)                                                                               \
	X(sys_shutdown)                                                                            \
	X(sys_epoll_wait)                                                                          \
	X(sys_epoll_ctl)                                                                           \
	X(sys_io_uring_enter)                                                                      \
	X(sys_pread)                                                                               \
	X(sys_pwrite)                                                                              \
	X(sys_other)

struct operation_stats {
	_Atomic uint64_t count, errors;
	struct histogram latency; /* sampled: see conn_op_begin() */
};

struct stats {
#define X(name) _Atomic uint64_t name;
	STATS_COUNTERS(X)
#undef X
	/* Gauges. */
	_Atomic uint64_t open;           /* connections */
	_Atomic uint64_t chunks_free;    /* as of the last turn, or the last end of a connection */
	_Atomic uint64_t batch_delay_ns; /* for which requests gather now */
	_Atomic uint64_t registered_bytes; /* with RDMA devices, once for each */
	struct operation_stats operations[SERVICE_OPERATIONS_MAX];
};

/* A plain load, add and store: no lock prefix.  NB_STATS=0 builds the yardstick of `make bench`. */
#ifndef NB_STATS
#define NB_STATS 1
#endif
#define stat_add(counter, n)                                                                       \
	do {                                                                                       \
		if (NB_STATS)                                                                      \
			atomic_store_explicit(                                                     \
				&(counter),                                                        \
				atomic_load_explicit(&(counter), memory_order_relaxed) + (n),      \
				memory_order_relaxed);                                             \
	} while (0)
#define stat_load(counter) atomic_load_explicit(&(counter), memory_order_relaxed)
