/* Shared by the parts of the netperf service: netperf.c (a connection's begin,
 * control and tests), data.c. */
#pragma once
#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>

#include "proto.h"
#include "session.h"
#include "util.h"

struct conn;
struct worker;

/* Time limit of each step that waits for the client. */
#define NETPERF_STEP_NS (10 * (uint64_t)NS_PER_S)

enum netperf_operation {
	NETPERF_OP_TEST,
	NETPERF_OP_TRANSACTION,
	NETPERF_OP_RECEIVE,
	NETPERF_OP_SEND
};

struct netperf_test {
	struct session session;         /* must be first */
	struct netperf_request request; /* constant once the test is listed */
	/* The control connection has ended, so data connections end, too. */
	_Atomic bool dead;

	/* Protected by the lock of the sessions. */
	struct netperf_result result; /* sums of ended connections; without times */
	unsigned ended;               /* data connections ended so far */
	/* Begin of the first connection, end of the last one; 0: none yet. */
	uint64_t begin_ns, end_ns;
	/* Of the workers of data: the value at the begin, later the difference. */
	uint64_t cpu_ns;
};

/* The step of a connection; control connections pass them in this order. */
enum netperf_step {
	NETPERF_NEW, /* control or data: not known yet */
	NETPERF_DATA,
	NETPERF_OVER,      /* UDP: the test has ended; further datagrams are dropped */
	NETPERF_ASK,       /* control: a request is awaited */
	NETPERF_WAIT_PORT, /* all ports are taken by tests of this client's address */
	NETPERF_WAIT_DATA, /* the client has been sent the port to connect to */
	NETPERF_RUN,
};

struct netperf_conn {
	struct session_member of; /* must be first: freed by session_leave() */
	uint8_t step;             /* enum netperf_step */
	struct session_address key;

	/* Control. */
	struct netperf_request request;
	uint64_t until_ns;        /* deadline of the step; data: when a sender's time is over */
	unsigned ended;           /* value of test->ended at the last look */
	struct sessions *own;     /* the sessions of its listener */
	struct session_twin twin; /* UDP test: the twin in whose sessions the test is */

	/* Data. */
	struct netperf_test *test;
	uint64_t asked;                /* bytes received of a request that is not complete */
	uint64_t owed;                 /* bytes still to be sent */
	uint64_t moved;                /* bytes received and sent at the last look */
	struct netperf_result counted; /* its counts, without times */
	uint32_t before;               /* value of counted.receives at the last look */
	uint64_t late_ns;              /* how long nothing had arrived when it ended */
};
static_assert(offsetof(struct netperf_conn, of) == 0, "see session_leave()");
static_assert(offsetof(struct netperf_test, session) == 0, "see struct session");

/* CPU time of all of the listener's workers so far. */
uint64_t netperf_cpu_ns(const struct worker *w);

/* c, a data connection, has joined its test. */
void netperf_data_begin(struct conn *c);
/* true: the test is over, but its data connection (UDP) stays. */
bool netperf_data_run(struct conn *c);
/* A data connection ends: adds its last counts to the test's. */
void netperf_data_end(struct conn *c);
