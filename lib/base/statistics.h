/* The schema of the statistics: one row for each number.
 *
 * From the rows come the workers' counters (core/stats.h), the fields of the documents GetStats and
 * GetStatus in their order (control/document.c), the types of org.nbserved.Control that describe
 * them (control/control_idl.c), and the metrics of OpenMetrics (ctl/metrics/openmetrics.c). */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "histogram.h"

struct json_t;

/* The numbers of a listener:
 *
 *	COUNTER(member, name, metric, help)          each worker counts, the listener's is the sum
 *	GAUGE(member, name, metric, help)            likewise, and it may fall
 *	FOUND(type, member, name, metric, help)      the main thread finds it out when asked
 *	MAP(member, name, varlink, each)             an object of objects: the json_t in member
 *	SPAN(member, name, metric, help)             a histogram of nanoseconds, of each worker
 *	OBJECT(name, varlink, metric, help, rows)
 *	OPTIONAL(member, name, varlink, help, rows)  an object that is there if member is not 0
 *
 * member: of struct listener_numbers and, of what workers count, of struct stats; for the others
 * see struct statistic.  To add a counter: a COUNTER() here, stat_add() where it happens, a line in
 * nbserved-control(7). */
/* clang-format off */
#define LISTENER_STATISTICS(COUNTER, GAUGE, FOUND, MAP, SPAN, OBJECT, OPTIONAL)                    \
	FOUND(GAUGE, since_ns, since_ns, NULL,                                                     \
	      "The daemon's uptime when these counters were 0; a reload may make it again.")        \
	OBJECT(connections, "Connections", NULL,                                                   \
	       "accepted: all; refused, closed: by reason; open: those open now.",                 \
		GAUGE(open, open, "nbserved_connections_open", "Connections open now.")            \
		COUNTER(accepted, accepted, "nbserved_connections_accepted",                       \
		        "Connections accepted.")                                                   \
		OBJECT(refused, NULL, "nbserved_connections_refused reason=*",                     \
		       "Connections refused.",                                                     \
			COUNTER(refused_limit, limit, NULL, "As many are open as may be.")         \
			COUNTER(refused_denied, denied, NULL, "The address may not."))             \
		OBJECT(closed, NULL, "nbserved_connections_closed reason=*",                       \
		       "Connections closed.",                                                      \
			COUNTER(closed_peer, peer, NULL, "The client ended it.")                   \
			COUNTER(closed_reset, reset, NULL, "The client reset it.")                 \
			COUNTER(closed_idle, idle, NULL, "The idle-timeout.")                      \
			COUNTER(closed_protocol, protocol, NULL, "The client broke the protocol.") \
			COUNTER(closed_overrun, overrun, NULL,                                     \
			        "Its messages had used up all receives (iWARP).")                  \
			COUNTER(closed_drain, drain, NULL, "Open when the drain ended.")           \
			COUNTER(closed_error, error, NULL, "An error of this host.")))             \
	COUNTER(accept_paused, accept_paused, "nbserved_accept_pauses",                            \
	        "Times accepting stopped for want of descriptors.")                                \
	COUNTER(bytes_in, bytes_in, "nbserved_received_bytes", "Bytes received.")                  \
	COUNTER(bytes_out, bytes_out, "nbserved_sent_bytes", "Bytes sent.")                        \
	COUNTER(bytes_copied, bytes_copied, "nbserved_copied_bytes",                               \
	        "Bytes copied in user space.")                                                     \
	MAP(operations, operations, "[string]Operation", operation_statistics)                     \
	OBJECT(cost, "Cost", NULL, NULL,                                                           \
		FOUND(COUNTER, cpu_user_ns, cpu_user_ns, "nbserved_cpu_seconds mode=user",         \
		      "CPU time of the listener's threads, with the kernel's threads that serve it.") \
		FOUND(COUNTER, cpu_system_ns, cpu_system_ns, "nbserved_cpu_seconds mode=system",   \
		      NULL)                                                                        \
		FOUND(COUNTER, switches_voluntary, context_switches_voluntary,                     \
		      "nbserved_context_switches kind=voluntary",                                  \
		      "Context switches of the listener's threads.")                               \
		FOUND(COUNTER, switches_involuntary, context_switches_involuntary,                 \
		      "nbserved_context_switches kind=involuntary",                                \
		      NULL)                                                                        \
		OBJECT(kernel_threads, NULL, NULL, NULL,                                           \
			FOUND(COUNTER, kernel_cpu_ns, cpu_ns,                                      \
			      "nbserved_kernel_threads_cpu_seconds",                               \
			      "Part of nbserved_cpu_seconds_total: of the kernel's threads.")      \
			FOUND(GAUGE, kernel_threads, count, "nbserved_kernel_threads",             \
			      "Threads of the kernel that serve the listener's rings."))           \
		COUNTER(turns, turns, "nbserved_turns", "Rounds of the listener's workers.")       \
		SPAN(turn_ns, turn_ns, "nbserved_turn_seconds",                                    \
		     "From the end of a wait to the end of the next one, which may have slept, of " \
		     "a sample of the turns.")                                                     \
		COUNTER(spins, spins, "nbserved_spins",                                            \
		        "Waits that began with spinning (busy-poll, sqpoll).")                     \
		COUNTER(spins_in_vain, spins_in_vain, "nbserved_spins_in_vain",                    \
		        "Those that went on longer.")                                              \
		COUNTER(gathered, gathered, "nbserved_gathered_turns",                             \
		        "Turns that waited for more requests (batch-delay).")                      \
		FOUND(GAUGE, batch_delay_ns, batch_delay_ns, "nbserved_batch_delay_seconds",       \
		      "For how long a turn waits so now; of several workers the longest.")         \
		OBJECT(syscalls, "[string]int", "nbserved_syscalls syscall=*",                     \
		       "System calls of the listener's workers.",                                  \
			COUNTER(sys_accept, accept, NULL, NULL)                                    \
			COUNTER(sys_recv, recv, NULL, NULL) COUNTER(sys_send, send, NULL, NULL)    \
			COUNTER(sys_close, close, NULL, NULL)                                      \
			COUNTER(sys_shutdown, shutdown, NULL, NULL)                                \
			COUNTER(sys_epoll_wait, epoll_wait, NULL, NULL)                            \
			COUNTER(sys_epoll_ctl, epoll_ctl, NULL, NULL)                              \
			COUNTER(sys_io_uring_enter, io_uring_enter, NULL, NULL)                    \
			COUNTER(sys_pread, pread, NULL, NULL)                                      \
			COUNTER(sys_pwrite, pwrite, NULL, NULL)                                    \
			COUNTER(sys_other, other, NULL, NULL)))                                    \
	OPTIONAL(has_hardware, hardware, "?Hardware",                                              \
	         "Of the threads of cost, if the CPU counts them.",                                \
		FOUND(GAUGE, counts_kernel, kernel, "nbserved_counters_kernel",                    \
		      "1: in user space and the kernel; 0: in user space alone.")                  \
		FOUND(COUNTER, hardware_enabled_ns, enabled_ns, NULL, "Their time on CPUs.")       \
		FOUND(COUNTER, hardware_running_ns, running_ns, NULL,                              \
		      "Of that, while the CPU counted; absent below 90 %.")                        \
		FOUND(COUNTER, cycles, cycles, "nbserved_cycles", "CPU cycles.")                   \
		FOUND(COUNTER, instructions, instructions, "nbserved_instructions",                \
		      "Instructions."))                                                            \
	OPTIONAL(has_misses, misses, "?Misses", "Likewise.",                                       \
		FOUND(COUNTER, misses_enabled_ns, enabled_ns, NULL, NULL)                          \
		FOUND(COUNTER, misses_running_ns, running_ns, NULL, NULL)                          \
		FOUND(COUNTER, cache_misses, cache, "nbserved_cache_misses",                       \
		      "Misses of the last cache.")                                                 \
		FOUND(COUNTER, branch_misses, branch, "nbserved_branch_misses",                    \
		      "Branches that were not foreseen."))                                         \
	OPTIONAL(has_software, software, "?Software", "Events of the kernel, for the same threads.", \
		FOUND(COUNTER, task_clock_ns, task_clock_ns, "nbserved_task_clock_seconds",        \
		      "CPU time by the counters.")                                                 \
		FOUND(COUNTER, counted_switches, context_switches,                                 \
		      "nbserved_counted_context_switches", "Context switches by the counters.")    \
		FOUND(COUNTER, page_faults, page_faults, "nbserved_page_faults", "Page faults.")   \
		FOUND(COUNTER, migrations, migrations, "nbserved_cpu_migrations",                  \
		      "Moves of a thread to another CPU."))                                        \
	OBJECT(pool, NULL, NULL, NULL,                                                             \
		FOUND(GAUGE, chunks, chunks, "nbserved_pool_chunks", "Buffers of all workers.")    \
		GAUGE(chunks_free, free, "nbserved_pool_free_chunks", "Buffers that are free.")    \
		COUNTER(starved, starved, "nbserved_pool_starved",                                 \
		        "Times a connection found no free buffer."))                               \
	COUNTER(tx_blocked, tx_blocked, "nbserved_tx_blocked",                                     \
	        "Times the peer did not take all that was sent.")                                  \
	COUNTER(throttled, throttled, "nbserved_throttled",                                        \
	        "Times receiving paused because too much was held.")                               \
	OBJECT(zero_copy, NULL, "nbserved_zero_copy_sends result=*",                               \
	       "Zero-copy sends, by their result in the kernel.",                                   \
		COUNTER(zero_copied, sent, NULL, "Without a copy (SEND_ZC).")                      \
		COUNTER(zero_copy_copied, copied, NULL, "The kernel copied after all."))           \
	OPTIONAL(has_zcrx, zero_copy_received, "?ZeroCopyReceived", "With zero-copy-receive.",     \
		COUNTER(zcrx_bytes, bytes, "nbserved_zero_copy_received_bytes",                    \
		        "Bytes received into the area.")                                           \
		COUNTER(zcrx_copied, copied_bytes, "nbserved_zero_copy_received_copied_bytes",     \
		        "Those of them that the kernel copied there.")                             \
		COUNTER(zcrx_out_of_pages, out_of_pages, "nbserved_zero_copy_out_of_pages",        \
		        "Times that a receive found no free page.")                                \
		GAUGE(zcrx_pages, pages, "nbserved_zero_copy_pages", "Pages of all areas.")        \
		GAUGE(zcrx_pages_free, pages_free, "nbserved_zero_copy_free_pages",                \
		      "Pages that are known to be free."))                                         \
	OPTIONAL(has_rdma, rdma, "?Rdma", "Of transport rdma.",                                    \
		OBJECT(posted, NULL, "nbserved_rdma_work_requests_posted opcode=*",                \
		       "RDMA work requests posted.",                                               \
			COUNTER(wr_send, send, NULL, NULL) COUNTER(wr_recv, recv, NULL, NULL)      \
			COUNTER(wr_read, read, NULL, NULL) COUNTER(wr_write, write, NULL, NULL))   \
		OBJECT(completed, NULL, "nbserved_rdma_work_requests_completed opcode=*",          \
		       "RDMA work requests known to be completed.",                                \
			COUNTER(wc_send, send, NULL, NULL) COUNTER(wc_recv, recv, NULL, NULL)      \
			COUNTER(wc_read, read, NULL, NULL) COUNTER(wc_write, write, NULL, NULL))   \
		COUNTER(wr_inline, inline, "nbserved_rdma_inline_sends",                           \
		        "Sends whose bytes were in the request.")                                  \
		COUNTER(wr_signalled, signalled, "nbserved_rdma_signalled",                        \
		        "Requests that asked for a completion.")                                   \
		COUNTER(doorbells, doorbells, "nbserved_rdma_doorbells",                           \
		        "Calls that posted requests.")                                             \
		COUNTER(cq_polls, polls, "nbserved_rdma_polls", "Polls of completion queues.")     \
		COUNTER(cq_completions, completions, "nbserved_rdma_completions",                  \
		        "Completions taken.")                                                      \
		COUNTER(cq_events, events, "nbserved_rdma_events",                                 \
		        "Completion events that woke a worker.")                                   \
		COUNTER(cq_sleeps, sleeps, "nbserved_rdma_sleeps",                                 \
		        "Times a worker waited for an event.")                                     \
		GAUGE(registered_bytes, registered_bytes, "nbserved_rdma_registered_bytes",        \
		      "Memory registered with RDMA devices, once for each.")                       \
		OBJECT(errors, NULL, "nbserved_rdma_work_request_errors status=*",                 \
		       "RDMA work requests that did not succeed.",                                 \
			COUNTER(wc_err_flushed, flushed, NULL, "Their connection ended.")          \
			COUNTER(wc_err_rnr, rnr, NULL, "The client had no receive posted.")        \
			COUNTER(wc_err_retry, retry, NULL, "The client does not answer.")          \
			COUNTER(wc_err_length, length, NULL, "A message beyond its buffer.")       \
			COUNTER(wc_err_access, access, NULL,                                       \
			        "A key or a range that is not valid, here or there.")              \
			COUNTER(wc_err_other, other, NULL, NULL)))                                 \
	OPTIONAL(has_tls, sessions, "?Sessions", "Of listeners with tls.",                         \
		COUNTER(tls_handshakes, handshakes, "nbserved_tls_handshakes",                     \
		        "Handshakes that were done.")                                              \
		COUNTER(tls_handshake_cpu_ns, handshake_cpu_ns,                                    \
		        "nbserved_tls_handshake_cpu_seconds",                                      \
		        "CPU time of all handshakes, a part of nbserved_cpu_seconds_total.")       \
		COUNTER(tls_failed, failed, "nbserved_tls_failures",                               \
		        "Sessions that ended with an error, in the handshake or later.")           \
		COUNTER(tls_timeouts, timeouts, "nbserved_tls_timeouts",                           \
		        "Handshakes that were not done in time.")                                  \
		COUNTER(tls_evicted, evicted, "nbserved_tls_evicted",                              \
		        "Handshakes that were ended for newer ones.")                              \
		COUNTER(tls_truncated, truncated, "nbserved_tls_truncated",                        \
		        "Clients that ended without close_notify.")                                \
		COUNTER(tls_kernel_sends, kernel_sends, "nbserved_tls_kernel_sends",               \
		        "Sessions whose sent records the kernel seals.")                           \
		COUNTER(tls_kernel_receives, kernel_receives, "nbserved_tls_kernel_receives",      \
		        "Sessions whose received records the kernel opens.")                       \
		COUNTER(tls_kernel_refused, kernel_refused, "nbserved_tls_kernel_refused",         \
		        "Connections that ended as the kernel did not take their keys.")           \
		COUNTER(tls_key_updates, key_updates, "nbserved_tls_key_updates",                  \
		        "Connections that ended as the kernel cannot change keys.")                \
		COUNTER(tls_plain_in, plain_in, "nbserved_tls_opened_bytes",                       \
		        "Bytes received, without what TLS adds.")                                  \
		COUNTER(tls_plain_out, plain_out, "nbserved_tls_sealed_bytes",                     \
		        "Bytes sent, without what TLS adds."))                                     \
	OPTIONAL(has_udp, udp, "?Udp", "Of transport udp.",                                        \
		COUNTER(datagrams_in, in, "nbserved_udp_datagrams_received",                       \
		        "Datagrams that were received.")                                           \
		COUNTER(datagrams_out, out, "nbserved_udp_datagrams_sent",                         \
		        "Datagrams that were sent.")                                               \
		COUNTER(frames_in, frames_in, "nbserved_udp_frames_received",                      \
		        "Those of the received that came as frames (af_xdp).")                     \
		COUNTER(frames_out, frames_out, "nbserved_udp_frames_sent",                        \
		        "Those of the sent that left as frames (af_xdp).")                         \
		COUNTER(datagrams_truncated, truncated, "nbserved_udp_datagrams_truncated",        \
		        "Datagrams dropped as longer than buffer-size.")                           \
		COUNTER(datagrams_refused, refused, "nbserved_udp_datagrams_refused",              \
		        "Datagrams from an address that must not be answered.")                    \
		COUNTER(datagrams_withheld, withheld, "nbserved_udp_datagrams_withheld",           \
		        "Replies that are more than a stranger has sent.")                         \
		COUNTER(datagrams_unsent, unsent, "nbserved_udp_datagrams_unsent",                 \
		        "Datagrams that the host could not send.")                                 \
		COUNTER(datagrams_overflowed, overflowed, "nbserved_udp_datagrams_overflowed",     \
		        "Datagrams for which the socket's queue had no room.")                     \
		COUNTER(datagrams_merged, merged, "nbserved_udp_datagrams_merged",                 \
		        "Datagrams received as part of a larger one (GRO).")                       \
		COUNTER(datagrams_split, split, "nbserved_udp_datagrams_split",                    \
		        "Datagrams sent as part of a larger one (GSO).")                           \
		COUNTER(peers_evicted, evicted, "nbserved_udp_clients_evicted",                    \
		        "Clients that were forgotten for others.")                                 \
		COUNTER(datagrams_dropped, dropped, "nbserved_udp_datagrams_dropped",              \
		        "Datagrams of clients that may not send, or have too many answers delayed."))
/* clang-format on */

/* Arguments for LISTENER_STATISTICS(): the first skips rows, the second expands
 * only the rows of an object. */
#define STATISTICS_NONE(...)
#define STATISTICS_ROWS(name, varlink, metric, help, ...) __VA_ARGS__

enum statistic_type {
	STATISTIC_END,   /* ends an object's fields or a table */
	STATISTIC_GIVEN, /* no number: set by the code that makes the document */
	STATISTIC_INFO,  /* like GIVEN; a metric of value 1 that carries labels */
	STATISTIC_COUNTER,
	STATISTIC_GAUGE,
	STATISTIC_QUANTILE, /* a percentile of a struct histogram_sum */
	STATISTIC_BUCKETS,  /* the buckets of a struct histogram_sum */
	STATISTIC_LATENCY,  /* a struct histogram_sum */
	STATISTIC_MAP,      /* a json_t: an object whose keys are not fields */
	STATISTIC_OBJECT,   /* its fields are the rows that follow, up to an END */
	STATISTIC_OPTIONAL, /* like OBJECT; it is there if its member is not 0 */
};

/* A field of a document; a table of them ends with END. */
struct statistic {
	enum statistic_type type;
	const char *name;
	const char *varlink; /* its type; NULL: int, or an object whose type has no name */
	const char *metric;  /* NAME, or NAME LABEL=VALUE; LABEL=*: one sample for each field of the
			      * object, the field's name as the label.  In the document a
			      * NAME_seconds  is in nanoseconds.  NULL: none */
	const char *help;    /* sentences; NULL: the name says it all */
	size_t offset;       /* offset of the value in the struct of which the document is made */
	double quantile;
	const struct statistic *each; /* MAP and LATENCY: the fields of a value, a table */
};

/* The next field: behind all the fields of an object. */
const struct statistic *statistic_next(const struct statistic *row);

/* GetStatus and GetStats begin with this. */
extern const struct statistic document_about[];

/* A listener: its properties; further ones that only GetStatus shows; and its counters,
 * from a struct listener_numbers. */
extern const struct statistic listener_about[], listener_status[], listener_statistics[];

struct listener_numbers {
#define NUMBER(member, ...)      uint64_t member;
#define FOUND(type, member, ...) uint64_t member;
#define JSON(member, ...)        struct json_t *member;
#define SUM(member, ...)         struct histogram_sum member;
#define FLAG(member, name, varlink, help, ...)                                                     \
	uint64_t member;                                                                           \
	__VA_ARGS__
	LISTENER_STATISTICS(NUMBER, NUMBER, FOUND, JSON, SUM, STATISTICS_ROWS, FLAG)
#undef NUMBER
#undef FOUND
#undef JSON
#undef SUM
#undef FLAG
};

/* An export: its properties, and its listeners; how one of them reaches it; and the counters of
 * this one, or of all, from a struct share_numbers. */
extern const struct statistic export_about[], export_listeners[], share_about[], share_statistics[];

struct share_numbers {
	struct json_t *operations, *errors;
	uint64_t bytes_read, bytes_written, zero_reads, in_flight;
};

/* An operation of a listener, and a request to a store: from a struct operation_numbers. */
extern const struct statistic operation_statistics[], request_statistics[];

struct operation_numbers {
	uint64_t count, errors;
	struct histogram_sum latency;
};

/* From a struct histogram_sum. */
extern const struct statistic latency_statistics[];
