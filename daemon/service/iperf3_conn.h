/* Private to the parts of the iperf3 service: iperf3.c (a connection's begin and end),
 * iperf3_control.c and iperf3_stream.c (what becomes of it), iperf3_results.c. */
#pragma once
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iperf3_test.h"
#include "util.h"

struct conn;

/* For what a client does on its own: cookie, parameters, streams, results; and to end in time. */
#define IPERF3_STEP_NS (10 * (uint64_t)NS_PER_S)

enum operation { IPERF3_OP_TEST, IPERF3_OP_RECEIVE, IPERF3_OP_SEND };

/* Where a connection is; those of control follow each other in this order. */
enum iperf3_step {
	STEP_COOKIE, /* control or stream: the cookie tells */
	STEP_STREAM, /* data */
	STEP_PARAMS,
	STEP_PLACE,   /* datagrams: others of the client's address have theirs come first */
	STEP_STREAMS, /* they come */
	STEP_RUN,
	STEP_FINISH,  /* the client has ended the test: streams say what they counted */
	STEP_RESULTS, /* of the client */
	STEP_ARRIVE,  /* bytes that are on their way still count, for a while */
	STEP_REPLY,   /* ours */
	STEP_DONE,    /* the client takes its leave */
	STEP_REFUSE,  /* iperf3_conn.refusal, and the end */
	STEP_CLOSE,   /* when all is sent */
};

struct iperf3_conn {
	struct iperf3_member member; /* the first: freed by iperf3_leave() */
	uint8_t step;                /* enum iperf3_step */
	uint8_t phase;               /* stream: the test's, as last seen */
	int refusal;                 /* enum iperf3_error; IPERF3_ACCESS_DENIED */

	/* Stream. */
	uint64_t granted;                /* bytes that it may still queue */
	uint64_t queued;                 /* all that it was granted so far, with those */
	uint64_t begin_ns;               /* of sending */
	struct iperf3_arrivals arrivals; /* datagrams */
	uint64_t numbered;               /* datagrams that it was told to send */

	/* Control. */
	uint32_t text_bytes, text_max;
	bool waited;                     /* for bytes to arrive */
	char *text;                      /* JSON that comes, or goes; NULL: none */
	struct iperf3_counted *expected; /* the client's counts, by index of the id */
	struct session_twin twin;        /* datagrams */
	struct iperf3_stream **sorted;
	uint64_t progress_bytes, progress_ns; /* the last time that something moved */
	uint64_t start_ns, end_ns;            /* of the phase that counts */
	struct iperf3_cpu cpu_start, cpu_end;
};
static_assert(offsetof(struct iperf3_conn, member) == 0, "see iperf3_leave()");

/* CPU time of the calling thread. */
struct iperf3_cpu iperf3_cpu_now(void);

/* The results of c's test as a message with its length, *ret_bytes, to be freed.  NULL: no memory.
 */
char *iperf3_results(struct conn *c, size_t *ret_bytes);

/* The connection has begun a test. */
void iperf3_control_enter(struct conn *c);
/* Tells the client why not (enum iperf3_error or IPERF3_ACCESS_DENIED), and ends. */
void iperf3_control_refuse(struct conn *c, int error);
void iperf3_control_run(struct conn *c);

/* Control: 0 when the test's datagrams may come, -EAGAIN: not yet, -EBUSY; -ENOBUFS: the socket's
 * buffers are smaller than asked for; -EMSGSIZE: its datagrams do not fit in a buffer of the
 * listener; -EPROTONOSUPPORT: there is no listener for them. */
int iperf3_place(struct conn *c);
/* The enum iperf3_error that the client hears for such an -errno. */
int iperf3_place_error(int rc);
/* When streams have stopped: have all datagrams come that the client has sent, or none for a while?
 */
bool iperf3_datagrams_arrived(struct iperf3_conn *i, uint64_t now_ns);
/* Datagrams of a client. */
void iperf3_datagrams_run(struct conn *c);
void iperf3_datagrams_leave(struct conn *c);

/* A stream counts from now on: at the start, and when the omitted time is over; and no longer, if
 * it did. */
void iperf3_count(struct iperf3_conn *i);
void iperf3_count_end(struct iperf3_conn *i);

/* The connection has joined a test as a stream: sets its socket up. */
void iperf3_stream_enter(struct conn *c);
void iperf3_stream_run(struct conn *c);
/* The connection ends, perhaps before the test: its last numbers. */
void iperf3_stream_leave(struct conn *c);
