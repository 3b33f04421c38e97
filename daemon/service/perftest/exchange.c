/* perftest without -R: the client's messages over TCP, before and after its data.
 *
 * No message says which test follows, so one rule serves all tests and any number of queue pairs.
 * A key with a new queue pair gets one of ours, which is ready to receive before the key is
 * answered; a key that came before gets the same answer again.  Later in the test the client uses
 * such messages to wait for its server, and the rule answers these as well. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "conn.h"
#include "conn_op.h"
#include "pair.h"
#include "perftest.h"
#include "proto.h"
#include "remote.h"

/* For each message of the beginning: the client measures its clock and registers its memory between
 * two of them, for more than 30 s in an emulated machine whose host was busy. */
#define EXCHANGE_TIMEOUT_NS (60 * (uint64_t)NS_PER_S)

struct exchange_conn {
	struct exchange exchange;
	unsigned reports; /* values answered, of all reports */
	unsigned mtu;     /* enum ibv_mtu: what both sides can */
	bool tests;       /* a queue pair was made */
	/* The message that is arriving, or that waits for its answer: the first `have` bytes. */
	unsigned have;
	struct exchange_key key;
	int kind; /* enum exchange_kind, or -EPROTO */
	bool parsed;
	uint8_t message[EXCHANGE_KEY];
};

/* Moves input to x->message.  True: the message is complete; false: more input has to arrive. */
static bool exchange_receive(struct conn *c, struct exchange_conn *x)
{
	unsigned bytes;

	while ((bytes = exchange_bytes(&x->exchange, x->message, x->have)) > x->have) {
		unsigned n = (unsigned)MIN(c->rx.bytes, bytes - x->have);

		if (n == 0)
			return false;
		bufq_read(&c->worker->pool, &c->rx, x->message + x->have, n);
		x->have += n;
	}
	return true;
}

/* ---- Answers: each is written over the message, and is sent by the caller; 0 or -errno ---- */

static int exchange_answer_mtu(struct conn *c, struct exchange_conn *x)
{
	int own = conn_pair_mtu(c);

	if (own < 0)
		return own;
	x->mtu = MIN(exchange_mtu(x->message), (unsigned)own);
	x->message[0] = (uint8_t)('0' + own);
	return 0;
}

struct exchange_options {
	uint64_t pair_type; /* enum pair_type: of the queue pairs of clients without -R */
};
static const char *const exchange_pair_types[] = {
	[PAIR_RC] = "rc", [PAIR_UC] = "uc", [PAIR_UD] = "ud", NULL
};
static const struct key exchange_keys[] = {
	{ "pair-type", "rc", "what clients without -R have as -c: their messages do not tell it",
	  KEY_FIELD(struct exchange_options, pair_type), KEY_CHOICE, .words = exchange_pair_types },
};
const struct key_table exchange_key_table = KEY_TABLE(exchange_keys, struct exchange_options);

static int exchange_answer_key(struct conn *c, struct exchange_conn *x)
{
	const struct exchange_options *options =
		options_of(&c->worker->options, &exchange_key_table);
	const struct exchange_key *said = &x->key;
	struct pair pair = { .type = (enum pair_type)options->pair_type,
			     .client = { said->number, said->sequence, said->reads, { 0 } },
			     .mtu = x->mtu };
	struct exchange_key own = { 0 };
	struct region scratch;
	int rc;

	memcpy(pair.client.gid, said->gid, sizeof(pair.client.gid));
	rc = conn_pair(c, &pair);
	if (rc < 0)
		return rc;
	if (!x->tests)
		conn_op_begin(c, OPERATION_TEST);
	x->tests = true;
	conn_scratch_region(pair.conn, &scratch);
	own.reads = (uint16_t)pair.own.reads;
	own.number = pair.own.number;
	own.sequence = pair.own.sequence;
	own.key = scratch.key;
	own.address = (uintptr_t)scratch.base;
	memcpy(own.gid, pair.own.gid, sizeof(own.gid));
	exchange_write_key(&own, x->message);
	return 0;
}

static int exchange_answer(struct conn *c, struct exchange_conn *x)
{
	switch (x->kind) {
	case EXCHANGE_IS_VERSION:
		memcpy(x->message, perftest_version, PERFTEST_VERSION);
		return 0;
	case EXCHANGE_IS_VALUE: /* the client's own: the larger counts, and ours never is */
		return 0;
	case EXCHANGE_IS_MTU:
		return exchange_answer_mtu(c, x);
	case EXCHANGE_IS_KEY:
		return exchange_answer_key(c, x);
	case EXCHANGE_IS_REPORT:
		if (perftest_reports_zero(c, x->reports++ % EXCHANGE_REPORTS))
			memset(x->message, 0, sizeof(x->message));
		return 0;
	default:
		return -EPROTO;
	}
}

/* Answers the message.  False: its answer needs more time, or the connection is closing. */
static bool exchange_serve(struct conn *c, struct exchange_conn *x)
{
	int rc = 0;

	if (!x->parsed)
		x->kind = exchange_parse(&x->exchange, x->message, &x->key);
	x->parsed = true;
	conn_set_deadline(c, 0);
	if (x->kind != EXCHANGE_IS_END)
		rc = exchange_answer(c, x);
	if (rc == -EAGAIN)
		return false;
	if (rc == 0 && x->kind != EXCHANGE_IS_END)
		rc = conn_write(c, x->message, x->have);
	if (rc < 0) /* -ENOBUFS: the pool is exhausted, so no test can run */
		conn_close(c, rc == -EPROTO ? CONN_END_PROTOCOL : CONN_END_ERROR);
	x->parsed = false;
	x->have = 0;
	return rc == 0;
}

void exchange_run(struct conn *c)
{
	struct exchange_conn *x = c->state;
	int64_t limit = conn_run_begin(c);

	while (exchange_receive(c, x)) {
		if (!exchange_serve(c, x) || !conn_goes_on(c, &limit))
			return;
	}
	/* Data may flow without a limit of time, but a message or a beginning
	 * that is incomplete has one. */
	if ((!x->tests || x->have > 0) &&
	    !conn_await_input(c, EXCHANGE_TIMEOUT_NS,
			      exchange_bytes(&x->exchange, x->message, x->have) - x->have))
		conn_close(c, CONN_END_IDLE);
}

int exchange_open(struct conn *c)
{
	c->state = calloc(1, sizeof(struct exchange_conn));
	if (!c->state)
		return -ENOMEM;
	c->flags |= CONN_LASTING; /* silent while data flows */
	return 0;
}

void exchange_close(struct conn *c)
{
	free(c->state);
}
