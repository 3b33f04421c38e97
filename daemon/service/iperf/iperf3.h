/* The iperf3 service: internal interface of its files. iperf3.c: begin, control and end of a
 * connection; stream.c: TCP streams; udp.c: UDP streams. */
#pragma once
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "test.h"
#include "util.h"

struct conn;

/* Time limit of each step that waits for the client: cookie, parameters, streams, results, end. */
#define IPERF3_STEP_NS (10 * (uint64_t)NS_PER_S)

enum operation { IPERF3_OP_TEST, IPERF3_OP_RECEIVE, IPERF3_OP_SEND };

/* The step of a connection; a control connection passes them in this order. */
enum iperf3_step {
	STEP_COOKIE, /* awaits the cookie, which distinguishes control connections from streams */
	STEP_STREAM, /* data */
	STEP_PARAMS,
	STEP_ADDRESS, /* UDP: waits until no other test of this client's address awaits streams */
	STEP_STREAMS, /* awaits the streams */
	STEP_RUN,
	STEP_FINISH,  /* the client has ended the test: collects the streams' counts */
	STEP_RESULTS, /* awaits the client's results */
	STEP_ARRIVE,  /* waits a while for bytes in transit, which still count */
	STEP_REPLY,   /* sends our results */
	STEP_DONE,    /* awaits the client's last message */
	STEP_REFUSE,  /* sends iperf3_conn.refusal, then ends */
	STEP_CLOSE,   /* closes when all output is sent */
};

struct iperf3_conn {
	struct iperf3_member member; /* must be first: freed by iperf3_leave() */
	uint8_t step;                /* enum iperf3_step */
	uint8_t phase;               /* of a stream: the test's phase as last seen */
	int refusal;                 /* enum iperf3_error; IPERF3_ACCESS_DENIED */

	/* Stream. */
	uint64_t granted;                /* bytes that may still be queued in tx */
	uint64_t queued;                 /* all bytes granted so far, including `granted` */
	uint64_t begin_ns;               /* when sending began */
	struct iperf3_arrivals arrivals; /* datagrams */
	uint64_t numbered;               /* UDP: datagrams put into tx so far */

	/* Control. */
	uint32_t text_bytes, text_max;
	unsigned arrived;                /* number of streams when their time limit last began */
	bool waited;                     /* it has waited in STEP_ARRIVE */
	char *text;                      /* JSON being received or sent; NULL: none */
	struct iperf3_counted *expected; /* the client's counts, by index of the stream id */
	struct session_twin twin;        /* datagrams */
	struct iperf3_stream **sorted;
	uint64_t progress_bytes, progress_ns; /* count of bytes, and when it last grew */
	uint64_t start_ns, end_ns;            /* of the counted phase */
	struct iperf3_cpu cpu_start, cpu_end;
};
static_assert(offsetof(struct iperf3_conn, member) == 0, "see iperf3_leave()");

/* CPU time of the calling thread. */
struct iperf3_cpu iperf3_cpu_now(void);

/* The results of c's test as a message with its length prefix; the caller frees it.  *ret_bytes:
 * its size.  NULL: no memory. */
char *iperf3_results(struct conn *c, size_t *ret_bytes);

/* Reserves the client's address and port for the datagrams of the control connection's test. 0;
 * -EAGAIN: another test of the client has them; else the enum iperf3_error to send, or
 * IPERF3_ACCESS_DENIED. */
int iperf3_reserve_address(struct conn *c);
/* After the streams have stopped: have all datagrams that the client sent
 * arrived, or none for a while? */
bool iperf3_datagrams_arrived(struct iperf3_conn *i, uint64_t now_ns);
/* run() and close() of a UDP stream. */
void iperf3_datagrams_run(struct conn *c);
void iperf3_datagrams_leave(struct conn *c);

/* iperf3_count(): counting begins, at the start of the test and again after omitted time.
 * iperf3_count_end(): counting ends. */
void iperf3_count(struct iperf3_conn *i);
void iperf3_count_end(struct iperf3_conn *i);

/* The connection has joined a test as a stream: sets its socket options. */
void iperf3_stream_enter(struct conn *c);
void iperf3_stream_run(struct conn *c);
/* The connection ends, perhaps before the test: adds its last counts. */
void iperf3_stream_leave(struct conn *c);
