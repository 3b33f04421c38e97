/* The tests of one iperf3 listener.
 *
 * A test is a session whose key is its cookie: it begins with the first connection that shows it
 * (control) and ends with that connection.  What changes hands is under the lock of the listener's
 * sessions; while bytes flow only the atomics are touched, each written by one worker. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "iperf3_proto.h"
#include "session.h"

struct iperf3_test;

/* In this order. */
enum iperf3_phase {
	IPERF3_SETUP, /* parameters and streams come */
	IPERF3_OMIT,  /* bytes flow, but do not count */
	IPERF3_RUN,
	IPERF3_END,  /* senders have stopped; what is on its way to receivers still counts */
	IPERF3_DEAD, /* control has ended: so do streams */
};

enum iperf3_role { IPERF3_UNKNOWN, IPERF3_RECEIVES, IPERF3_SENDS };

/* One connection.  Allocated by the service, which gives it up with iperf3_leave(). */
struct iperf3_member {
	struct session_member of;     /* the first */
	struct iperf3_test *test;     /* NULL: none yet */
	struct iperf3_stream *stream; /* NULL: of control */
};

/* CPU time of a thread up to a moment. */
struct iperf3_cpu {
	uint64_t user_ns, system_ns;
};

/* One stream, also after its connection has ended.  Between the start of the test and `finished` it
 * is its worker's, but for the atomics; then control's. */
struct iperf3_stream {
	struct iperf3_member *member; /* NULL: ended.  Under the lock */
	bool finished;                /* under the lock */
	_Atomic uint64_t bytes;       /* in its direction, from the beginning */
	_Atomic uint8_t role;         /* enum iperf3_role */
	unsigned worker_index;
	struct conn *held;   /* its worker's: itself, with input that waits; NULL: none does */
	uint32_t window_max; /* its worker's: bytes, the widest that its client has opened */
	uint64_t unread_ns;  /* its worker's: when the client was last seen not to read */
	uint32_t retransmits, retransmits_before;
	/* Of datagrams: lost is stored before packets. */
	_Atomic uint64_t packets, lost, order; /* with those that were omitted */
	_Atomic double jitter_s;
	uint64_t packets_before, lost_before, order_before;
	uint64_t bytes_before; /* of the omitted seconds */
	uint64_t opened_ns, start_ns, end_ns;
	struct iperf3_cpu cpu_start, cpu_end; /* of its worker */
};

struct iperf3_test {
	struct session session;
	unsigned joined, arrived, finished;
	struct iperf3_params params;   /* constant once streams may come */
	struct iperf3_stream *streams; /* stream_count of them; NULL: none may come yet */
	unsigned stream_count;
	_Atomic uint8_t phase;                  /* enum iperf3_phase */
	_Atomic uint8_t end;                    /* enum conn_end, for streams in IPERF3_DEAD */
	int error;                              /* under the lock; see iperf3_arrive() */
	_Atomic unsigned receivers;             /* --bidir: streams that are known to receive */
	_Atomic uint64_t budget;                /* bytes that may still be sent */
	char congestion[IPERF3_CONGESTION_MAX]; /* in use; of the last stream that came */
};

/* The member's connection has shown this cookie.  0: it is a new test's control, or a stream of the
 * test (member->stream).  -EBUSY: too many tests; -EACCES: a test that takes no more streams;
 * -ENOMEM. */
int iperf3_enter(struct iperf3_member *member, const uint8_t cookie[static IPERF3_COOKIE]);

/* From now on streams may enter.  0 or -ENOMEM. */
int iperf3_expect(struct iperf3_test *test, const struct iperf3_params *params);

/* Datagrams: the test moves to where its streams come.  0, -EAGAIN: another one waits there;
 * -EBUSY.
 */
int iperf3_await(struct iperf3_test *test, struct sessions *twin, const struct session_address *at);
/* A stream has come there: whoever waits has it, and knows its role.  0, -ENOENT: nobody does;
 * -EACCES. */
int iperf3_join(struct iperf3_member *member, const struct session_address *at);

/* The stream is ready, or cannot be had (enum iperf3_error); the congestion control in use. Control
 * runs when the last one is here, or one is lost. */
void iperf3_arrive(struct iperf3_member *member, int error, const char *congestion);
bool iperf3_is_complete(struct iperf3_test *test, int *ret_error);

/* Streams run again, and see it. */
void iperf3_set_phase(struct iperf3_test *test, enum iperf3_phase phase);
static inline enum iperf3_phase iperf3_phase(const struct iperf3_test *test)
{
	return (enum iperf3_phase)atomic_load_explicit(&test->phase, memory_order_acquire);
}

/* --bidir: this stream has data, so it receives.  When as many have as there should be, the others
 * run again: they send. */
void iperf3_receives(struct iperf3_member *member);

/* The stream's numbers are final, but for bytes that still come in.  Control runs when all are. */
void iperf3_finish(struct iperf3_member *member);
bool iperf3_is_finished(struct iperf3_test *test);

/* Up to `bytes` of what senders may still send. */
uint64_t iperf3_take_budget(struct iperf3_test *test, uint64_t bytes);

/* The stream's count in its direction without what was omitted. */
uint64_t iperf3_stream_bytes(const struct iperf3_stream *stream);

/* All that its streams have counted so far, in both directions. */
uint64_t iperf3_bytes(const struct iperf3_test *test);

/* Streams in the order of their ids: receivers as they came, then senders.  Those of --bidir that
 * never showed what they are get a role by their place.  After iperf3_is_finished(). */
void iperf3_sort_streams(struct iperf3_test *test, struct iperf3_stream **ret_sorted);

/* The connection ends: frees member, now or when a call on its way has arrived. */
void iperf3_leave(struct iperf3_member *member);
