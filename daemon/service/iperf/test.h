/* The tests of one iperf3 listener.
 *
 * A test is a session whose key is its cookie: it begins with the first connection that sends this
 * cookie (control) and ends with that connection.  The lock of the listener's sessions protects
 * shared data; while data flows only the atomics are used, each written by one worker. */
#pragma once
#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto.h"
#include "session.h"

struct iperf3_test;

/* The phases of a test, in this order. */
enum iperf3_phase {
	IPERF3_SETUP, /* parameters and streams are awaited */
	IPERF3_OMIT,  /* data flows but does not count (-O) */
	IPERF3_RUN,
	IPERF3_END,  /* senders have stopped; data in transit to receivers still counts */
	IPERF3_DEAD, /* the control connection has ended, so streams end, too */
};

/* Does counting begin for a stream that last ran in phase `seen` and finds `now`?  A test may have
 * ended before a stream's worker runs in it: the stream then counts from there.  Pure. */
static inline bool iperf3_begins_counting(enum iperf3_phase seen, enum iperf3_phase now)
{
	return (seen == IPERF3_SETUP && now > IPERF3_SETUP && now < IPERF3_DEAD) ||
	       (seen == IPERF3_OMIT && now == IPERF3_RUN);
}

enum iperf3_role { IPERF3_UNKNOWN, IPERF3_RECEIVES, IPERF3_SENDS };

/* One connection.  Allocated by the service; iperf3_leave() frees it. */
struct iperf3_member {
	struct session_member of;     /* must be first */
	struct iperf3_test *test;     /* NULL: in no test yet */
	struct iperf3_stream *stream; /* NULL: a control connection */
};

/* CPU time that a thread has used so far. */
struct iperf3_cpu {
	uint64_t user_ns, system_ns;
};

/* One stream; outlives its connection.  Between the start of the test and `finished` its worker
 * owns it, except for the atomics; after that the control connection's worker. */
struct iperf3_stream {
	struct iperf3_member *member; /* protected by the lock; NULL: ended */
	bool finished;                /* protected by the lock */
	_Atomic uint64_t bytes;       /* moved in its direction since the beginning */
	_Atomic uint8_t role;         /* enum iperf3_role */
	/* only compared, never dereferenced: the worker may have ended */
	const struct worker *worker;
	/* worker's thread: its connection, if it has stopped receiving; NULL: it receives. */
	struct conn *held;
	/* worker's thread: bytes, the widest receive window of its client so far. */
	uint32_t window_max;
	uint64_t unread_ns; /* worker's thread: when the client last left data unread */
	uint32_t retransmits, retransmits_before;
	/* UDP; `lost` is stored before `packets`. */
	_Atomic uint64_t packets, lost; /* including omitted ones */
	_Atomic double jitter_s;
	uint64_t packets_before, lost_before;
	uint64_t bytes_before; /* bytes of the omitted seconds */
	uint64_t opened_ns, start_ns, end_ns;
	struct iperf3_cpu cpu_start, cpu_end; /* of its worker's thread */
};

struct iperf3_test {
	struct session session; /* must be first */
	unsigned joined;
	_Atomic unsigned arrived,
		finished;              /* streams that are ready or failed; that have finished */
	struct iperf3_params params;   /* constant once streams may join */
	struct iperf3_stream *streams; /* stream_count of them; NULL: streams may not join yet */
	unsigned stream_count;
	_Atomic uint8_t phase;                  /* enum iperf3_phase */
	_Atomic uint8_t end;                    /* enum conn_end, for streams in IPERF3_DEAD */
	_Atomic int error;                      /* see iperf3_arrive() */
	_Atomic unsigned receivers;             /* --bidir: streams that are known to receive */
	_Atomic uint64_t budget;                /* bytes that may still be sent */
	char congestion[IPERF3_CONGESTION_MAX]; /* in use by the stream that joined last */
};
static_assert(offsetof(struct iperf3_test, session) == 0, "see struct session");

/* The member's connection has sent this cookie.  0: it is the control connection of a new test,
 * or (member->stream set) a stream of a test.  -EBUSY: too many tests; -EACCES: the test takes
 * no more streams; -ENOMEM. */
int iperf3_enter(struct iperf3_member *member, const uint8_t cookie[static IPERF3_COOKIE]);

/* From now on streams may join the test.  0 or -ENOMEM. */
int iperf3_expect(struct iperf3_test *test, const struct iperf3_params *params);

/* UDP: a stream has arrived: joins it to the test that waits at this key, and sets its role.  0;
 * -ENOENT: no test waits there; -EACCES: the test takes no more streams. */
int iperf3_join(struct iperf3_member *member, const struct session_address *at);

/* The stream is ready (error 0) or failed (enum iperf3_error); congestion: the one in use.  Runs
 * the control connection when the last stream is ready or one has failed. */
void iperf3_arrive(struct iperf3_member *member, int error, const char *congestion);

/* Sets the phase and has all streams run, which then see it. */
void iperf3_set_phase(struct iperf3_test *test, enum iperf3_phase phase);
static inline enum iperf3_phase iperf3_phase(const struct iperf3_test *test)
{
	return (enum iperf3_phase)atomic_load_explicit(&test->phase, memory_order_acquire);
}

/* --bidir: data has arrived, so this stream receives.  Once enough streams receive, the others are
 * run again and send. */
void iperf3_receives(struct iperf3_member *member);

/* The stream's counts are final, except for bytes in transit.  Runs the control connection when all
 * streams have finished. */
void iperf3_finish(struct iperf3_member *member);
static inline bool iperf3_is_finished(const struct iperf3_test *test)
{
	return atomic_load(&test->finished) == test->stream_count;
}

/* Takes up to `bytes` from the bytes that senders may still send; returns how many. */
uint64_t iperf3_take_budget(struct iperf3_test *test, uint64_t bytes);

/* The stream's bytes in its direction, without omitted ones. */
uint64_t iperf3_stream_bytes(const struct iperf3_stream *stream);

/* All bytes that its streams have moved so far, in both directions. */
uint64_t iperf3_bytes(const struct iperf3_test *test);

/* Streams in the order of their ids: receivers in order of arrival, then senders.  Streams of
 * --bidir without a known role get one by their position.  After iperf3_is_finished(). */
void iperf3_sort_streams(struct iperf3_test *test, struct iperf3_stream **ret_sorted);

/* The connection ends: frees member, now or when a posted call has run. */
void iperf3_leave(struct iperf3_member *member);
