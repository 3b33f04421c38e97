/* Shared by the parts of the netperf service: netperf.c (a connection's begin, and control),
 * netperf_port.c, netperf_data.c. */
#pragma once
#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>

#include "netperf_proto.h"
#include "session.h"
#include "util.h"

struct conn;
struct worker;

/* For what a client does on its own. */
#define NETPERF_STEP_NS (10 * (uint64_t)NS_PER_S)

enum netperf_operation {
	NETPERF_OP_TEST,
	NETPERF_OP_TRANSACTION,
	NETPERF_OP_RECEIVE,
	NETPERF_OP_SEND
};

struct netperf_test {
	struct session session;
	struct netperf_request request; /* constant once the test is listed */
	_Atomic bool dead;              /* control has ended: so does data */

	/* Under the lock. */
	struct netperf_result result; /* of connections that have ended; without time */
	struct netperf_conn *data;    /* connections */
	unsigned ended;               /* of them, so far */
	uint64_t begin_ns, end_ns;    /* of the first one, of the last one; 0: none yet */
	uint64_t cpu_ns;              /* of the workers of data: when it began, then what it took */
};

/* In this order, but for data. */
enum netperf_step {
	NETPERF_NEW, /* control or data: not known yet */
	NETPERF_DATA,
	NETPERF_OVER,      /* datagrams: the test has ended, what still comes is nobody's */
	NETPERF_ASK,       /* control: a request is to come */
	NETPERF_WAIT_PORT, /* all ports are taken by tests of this client's address */
	NETPERF_WAIT_DATA, /* the client was told where to connect */
	NETPERF_RUN,
};

struct netperf_conn {
	struct session_member of; /* the first: freed by session_leave() */
	uint8_t step;             /* enum netperf_step */
	struct session_address key;

	/* Control. */
	struct netperf_request request;
	uint64_t until_ns;        /* when the step must be over; of CRR: when the result is due */
	struct sessions *own;     /* of its listener */
	struct session_twin twin; /* of a test of datagrams, whose sessions it is in meanwhile */

	/* Data. */
	struct netperf_test *test;
	struct netperf_conn *next, **at; /* of test->data; under the lock */
	uint64_t owed;                   /* bytes that are to be sent */
	struct netperf_result counted;   /* without time */
	uint32_t before;                 /* counted.receives, when it was last looked at */
	uint64_t late_ns;                /* how long nothing had come when it ended */
};
static_assert(offsetof(struct netperf_conn, of) == 0, "see session_leave()");

/* CPU time of all of the listener's workers so far. */
uint64_t netperf_cpu_ns(const struct worker *w);

/* netperf_port.c */
/* Lists the session of c's request, c being control, at a port where nobody else of its address
 * waits, of datagrams the twin's: that port.  -EAGAIN: there is none now; never: -EADDRNOTAVAIL,
 * -EPROTONOSUPPORT without a twin, -EMSGSIZE if its buffers are too small; -EBUSY. */
int netperf_list(const struct conn *c, struct netperf_conn *n, struct session *session);

/* The connection is one of test's, which it has joined. */
void netperf_data_begin(struct conn *c);
void netperf_data_run(struct conn *c);
/* A data connection ends: adds its last numbers to the test's. */
void netperf_data_end(struct conn *c);
/* The test of a data connection is over, while the connection stays. */
void netperf_data_over(struct conn *c);
