/* Services perftest and perftest-lat: the servers of ib_send_bw, ib_write_bw, ib_read_bw,
 * ib_read_lat and ib_send_lat.  Any number of clients run at once; control connections use RDMA
 * (with -R) or TCP.
 *
 * Control and data connections use the same port.  A connection that begins with a version message
 * is a control connection.  Clients do not announce the type of test, so there are two services:
 * `perftest` drops the messages of data connections, `perftest-lat` answers each with one of the
 * same length.  Both offer memory for one-sided operations.  The contents of memory and messages
 * have no meaning, so all clients of a worker share one region (see remote_scratch_region()).
 *
 * Over iWARP, ib_send_bw uses flow control: for each of its queue pairs the client has memory into
 * which the server writes how many messages it has received (a credit).  Only the order in which
 * queue pairs connect identifies them, so clients of one address connect one after the other.
 * Clients do not announce how many messages they send without a new credit: few with a small -n or
 * -r.  So the server writes the next credit as soon as the write of the last one has completed. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "conn.h"
#include "conn_op.h"
#include "connect_data.h"
#include "pair.h"
#include "parse.h"
#include "proto.h"
#include "remote.h"
#include "service.h"
#include "session.h"
#include "sockaddr.h"

enum {
	OPERATION_TEST = 0,
	OPERATION_MESSAGE = 1,
};

/* Must the value at `position` (from 0) of a report be zero?  It must if it describes messages of
 * this server and the service sends none. */
static inline bool perftest_reports_zero(const struct conn *c, unsigned position)
{
	enum { SIZE_AND_COUNT = 2 };

	return !(c->worker->service->flags & SERVICE_ANSWERS) && position >= SIZE_AND_COUNT;
}

/* Time limit for each message before the data.  Between two of them the client measures its clock,
 * fills its memory byte by byte and registers it, which has taken more than 30 s in an emulated
 * machine on a busy host. */
#define SETUP_TIMEOUT_NS (60 * (uint64_t)NS_PER_S)

/* ---- Clients without -R: messages over TCP, before and after the data ----
 *
 * No message identifies the test, so one rule serves all tests and any number of queue pairs.  For
 * a key that names a new queue pair the server creates its own queue pair.  That one is ready to
 * receive before the key is answered.  A key that was received before gets the same answer again.
 * Later the client uses such messages to synchronise with its server, and gets answers by the same
 * rule. */

struct exchange_conn {
	struct exchange exchange;
	unsigned reports; /* number of values answered, in all reports */
	unsigned mtu;     /* enum ibv_mtu: what both sides can */
	bool tests;       /* a queue pair was made */
	/* The message that is being received or answered: its first `have` bytes. */
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

	while ((bytes = perftest_exchange_bytes(&x->exchange, x->message, x->have)) > x->have) {
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
	/* Of the queue pairs of clients without -R. */
	uint64_t pair_type; /* enum pair_type */
	uint64_t traffic_class, service_level;
};
static const char *const exchange_pair_types[] = {
	[PAIR_RC] = "rc", [PAIR_UC] = "uc", [PAIR_UD] = "ud", NULL
};
static const struct key exchange_keys[] = {
	{ "pair-type", "rc",
	  "queue pairs (-c) of clients without -R, whose messages do not tell it",
	  KEY_FIELD(struct exchange_options, pair_type), .type = KEY_CHOICE,
	  .words = exchange_pair_types },
	{ "traffic-class", "0", "IP's traffic class of what is sent to clients without -R",
	  KEY_FIELD(struct exchange_options, traffic_class), .type = KEY_UINT, .max = UINT8_MAX },
	{ "service-level", "0", "service level (priority) of what is sent to clients without -R",
	  KEY_FIELD(struct exchange_options, service_level), .type = KEY_UINT, .max = 15 },
};
static const struct key_table exchange_key_table =
	KEY_TABLE(exchange_keys, struct exchange_options);

static int exchange_answer_key(struct conn *c, struct exchange_conn *x)
{
	const struct exchange_options *options =
		options_of(&c->worker->options, &exchange_key_table);
	const struct exchange_key *agreed = &x->key;
	struct pair pair = { .type = (enum pair_type)options->pair_type,
			     .client = { agreed->number, agreed->sequence, agreed->reads, { 0 } },
			     .mtu = x->mtu,
			     .traffic_class = (uint8_t)options->traffic_class,
			     .service_level = (uint8_t)options->service_level };
	struct exchange_key own = { 0 };
	struct region scratch;
	int rc;

	memcpy(pair.client.gid, agreed->gid, sizeof(pair.client.gid));
	rc = conn_pair(c, &pair);
	if (rc < 0)
		return rc;
	if (!x->tests)
		conn_op_begin(c, OPERATION_TEST);
	x->tests = true;
	remote_scratch_region(pair.conn, &scratch);
	own.reads = (uint16_t)pair.own.reads;
	own.number = pair.own.number;
	own.sequence = pair.own.sequence;
	own.key = scratch.key;
	own.address = (uintptr_t)scratch.base;
	memcpy(own.gid, pair.own.gid, sizeof(own.gid));
	perftest_exchange_write_key(&own, x->message);
	return 0;
}

static int exchange_answer(struct conn *c, struct exchange_conn *x)
{
	switch (x->kind) {
	case EXCHANGE_IS_VERSION:
		memcpy(x->message, perftest_version, PERFTEST_VERSION);
		return 0;
	case EXCHANGE_IS_VALUE: /* both sides use the larger value: the client's */
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
		x->kind = perftest_exchange_parse(&x->exchange, x->message, &x->key);
	x->parsed = true;
	conn_set_deadline(c, 0);
	if (x->kind != EXCHANGE_IS_END)
		rc = exchange_answer(c, x);
	if (rc == -EAGAIN)
		return false;
	if (rc == -EPROTO)
		conn_warn(c, "%s", perftest_exchange_wrong(&x->exchange, x->message));
	if (rc == 0 && x->kind != EXCHANGE_IS_END)
		rc = conn_write(c, x->message, x->have);
	if (rc < 0) /* -ENOBUFS: the pool is exhausted, so no test can run */
		conn_close(c, rc == -EPROTO ? CONN_END_PROTOCOL : CONN_END_ERROR);
	x->parsed = false;
	x->have = 0;
	return rc == 0;
}

static void exchange_run(struct conn *c)
{
	struct exchange_conn *x = c->state;
	int64_t limit = conn_run_begin(c);

	while (exchange_receive(c, x)) {
		if (!exchange_serve(c, x) || !conn_goes_on(c, &limit))
			return;
	}
	/* There is no time limit while data flows, but one for an incomplete message, and one
	 * before the first queue pair. */
	if ((!x->tests || x->have > 0) &&
	    !conn_await_input(c, SETUP_TIMEOUT_NS,
			      perftest_exchange_bytes(&x->exchange, x->message, x->have) - x->have))
		conn_close(c, CONN_END_IDLE);
}

#define RETRY_NS (5 * (uint64_t)NS_PER_MS) /* interval of checks whether it is a client's turn */

enum { RECEIVES_IWARP = 520 }; /* perftest has up to 512 messages in flight */

enum perftest_step {
	PERFTEST_NEW,     /* not known yet: the first message decides between control and data */
	PERFTEST_DATA,    /* of the test that was connecting, if there was one */
	PERFTEST_GREETED, /* control: exchanges the messages before its data connections */
	PERFTEST_WAITS,   /* control: waits until other clients of its address have connected */
	PERFTEST_CONNECTS,
	PERFTEST_RUNS,
};

struct perftest_test {
	struct session session; /* must be first */
	unsigned count;
	struct perftest_queue queues[PERFTEST_QUEUES_MAX];
};

struct perftest_conn {
	struct session_member of; /* must be first: freed by session_leave() */
	uint8_t step;             /* enum perftest_step */
	bool iwarp;

	/* Control. */
	/* The message to be answered, message_bytes long; 0: none. */
	uint8_t message[PERFTEST_MESSAGE_MAX];
	uint32_t message_bytes;
	unsigned reports;

	/* Data. */
	/* several messages of the client were in flight at once */
	bool piped;
	bool writing; /* a write of the credit is in flight */
	/* The client may have reset its credits for the next message size (-a): credits for this
	 * size would be wrong. */
	bool between;
	uint32_t length;          /* of the messages of this size */
	uint32_t taken, credited; /* messages of this size */
	struct remote credit;
};
static_assert(offsetof(struct perftest_conn, of) == 0, "see session_leave()");
static_assert(offsetof(struct perftest_test, session) == 0, "see struct session");

/* The test to which the connection belongs; NULL: none. */
static struct perftest_test *test_of(const struct perftest_conn *p)
{
	return p->of.session ? container_of(p->of.session, struct perftest_test, session) : NULL;
}

/* ---- Assigning data connections to tests: over iWARP only ---- */

static struct in6_addr key_of(const struct conn *c)
{
	struct sockaddr_storage peer = conn_peer_address(c);

	return sockaddr_mapped(&peer);
}

/* Begins the test of a control connection.  0; -EAGAIN: another client of its address is
 * connecting; -EBUSY, -ENOMEM. */
static int test_begin(const struct conn *c, struct perftest_conn *p)
{
	struct perftest_test *t = calloc(1, sizeof(*t));
	struct in6_addr key = key_of(c);
	int rc;

	if (!t)
		return -ENOMEM;
	sessions_lock(p->of.sessions);
	rc = session_begin(&t->session, &p->of, &key, sizeof(key));
	sessions_unlock(p->of.sessions);
	if (rc < 0)
		free(t);
	return rc;
}

/* Assumes that a new connection is a data connection of the test that is connecting, until a
 * message shows otherwise. */
static void test_join(const struct conn *c, struct perftest_conn *p)
{
	struct in6_addr key = key_of(c);
	struct session *found;

	sessions_lock(p->of.sessions);
	found = session_find(p->of.sessions, &key, sizeof(key));
	if (found)
		session_join(found, &p->of);
	sessions_unlock(p->of.sessions);
}

static void test_unlist(struct perftest_conn *p)
{
	if (!p->of.session)
		return;
	sessions_lock(p->of.sessions);
	session_unlist(p->of.session);
	sessions_unlock(p->of.sessions);
}

/* ---- Credits ---- */

static void credit_done(struct remote *remote, int result)
{
	struct perftest_conn *p = container_of(remote, struct perftest_conn, credit);

	(void)result;
	bufq_drop(&remote->conn->worker->pool, &remote->data, remote->data.bytes);
	p->writing = false;
}

/* The client's memory for the credits of this queue pair; NULL: the client uses none. */
static const struct perftest_queue *queue_of(const struct perftest_conn *p)
{
	const struct perftest_test *t = test_of(p);
	unsigned index = 0;

	if (!t)
		return NULL;
	for (const struct session_member *m = t->session.data; m != &p->of; m = m->next)
		index++;
	return index < t->count && t->queues[index].address ? &t->queues[index] : NULL;
}

/* Writes the number of received messages to the client's memory.  Clients that wait for answers
 * have no such memory. */
static void credit_give(struct conn *c, struct perftest_conn *p)
{
	const struct perftest_queue *q;
	struct view *v;

	if (p->writing || p->between || p->taken == p->credited || c->flags & CONN_CLOSING)
		return;
	q = queue_of(p);
	if (!q)
		return;
	v = conn_room(c->worker, 0, sizeof(p->taken), sizeof(p->taken));
	if (!v) {
		conn_wait_for_memory(c);
		return;
	}
	memcpy(v->data, &p->taken, sizeof(p->taken));
	p->credit = (struct remote){ .done = credit_done,
				     .conn = c,
				     .kind = REMOTE_WRITE,
				     .key = q->key,
				     .address = q->address };
	bufq_push(&p->credit.data, v);
	p->writing = true;
	p->credited = p->taken;
	remote_submit(&p->credit);
}

/* Stops the credits of the current message size.  False: the write of one is still in flight. */
static bool credits_stop(struct perftest_test *t)
{
	bool writing = false;

	for (struct session_member *m = t ? t->session.data : NULL; m; m = m->next) {
		struct perftest_conn *p = container_of(m, struct perftest_conn, of);

		p->between = true;
		writing |= p->writing;
	}
	return !writing;
}

/* ---- Control ---- */

static void queue_answer(struct conn *c, struct perftest_conn *p)
{
	struct perftest_queue q = perftest_get_queue(p->message);
	struct perftest_test *t = test_of(p);
	struct region scratch;
	bool known = q.number == 0;

	for (unsigned i = 0; t && i < t->count; i++)
		known |= t->queues[i].number == q.number;
	if (t && !known && t->count < PERFTEST_QUEUES_MAX)
		t->queues[t->count++] = q;
	remote_scratch_region(c, &scratch);
	perftest_set_memory(p->message, (uintptr_t)scratch.base, scratch.key);
}

static void report_answer(const struct conn *c, struct perftest_conn *p)
{
	if (perftest_reports_zero(c, p->reports++ % EXCHANGE_REPORTS))
		memset(p->message, 0, sizeof(p->message));
}

/* May the control connection continue?  False: not yet. */
static bool control_may_continue(struct conn *c, struct perftest_conn *p)
{
	int rc = 0;

	if (p->step == PERFTEST_CONNECTS) {
		test_unlist(p);
		p->step = PERFTEST_RUNS;
		conn_set_deadline(c, 0);
	}
	if (p->step == PERFTEST_RUNS && !credits_stop(test_of(p))) {
		conn_set_deadline(c, clock_ns() + RETRY_NS);
		return false;
	}
	if (p->step == PERFTEST_RUNS) {
		conn_set_deadline(c, 0);
		return true;
	}
	if (p->iwarp)
		rc = test_begin(c, p);
	if (rc == -EAGAIN) {
		p->step = PERFTEST_WAITS;
		conn_set_deadline(c, clock_ns() + RETRY_NS);
		return false;
	}
	p->step = PERFTEST_CONNECTS;
	if (p->iwarp)
		conn_set_deadline(c, clock_ns() + SETUP_TIMEOUT_NS);
	conn_op_begin(c, OPERATION_TEST);
	return true;
}

/* Ends a client with -z, which waits for an answer and does not notice a disconnection.  An answer
 * longer than its receive buffer makes it fail. */
static void control_refuse(struct conn *c)
{
	static const uint8_t answer[2 * PERFTEST_MESSAGE_MAX];

	conn_warn(c,
		  "it has -z, whose queue pairs are not served; use -R instead, or neither option");
	conn_write(c, answer, sizeof(answer));
	conn_close_when_sent(c, CONN_END_PROTOCOL);
}

static void control_run(struct conn *c, struct perftest_conn *p)
{
	int kind = perftest_parse(p->message, p->message_bytes);

	/* With -R the first such message is all zeros ("continue"): data connections come later. */
	if (kind == PERFTEST_QUEUE && p->step == PERFTEST_GREETED &&
	    perftest_get_queue(p->message).number != 0) {
		p->message_bytes = 0;
		control_refuse(c);
		return;
	}
	if (kind == PERFTEST_QUEUE && !control_may_continue(c, p))
		return;
	if (kind == PERFTEST_HELLO)
		memcpy(p->message, perftest_version, PERFTEST_VERSION);
	else if (kind == PERFTEST_QUEUE)
		queue_answer(c, p);
	else if (kind == PERFTEST_REPORT)
		report_answer(c, p);
	if (kind < 0)
		conn_close(c, CONN_END_PROTOCOL);
	else if (conn_write(c, p->message, p->message_bytes) < 0)
		conn_close(c, CONN_END_ERROR); /* the pool is exhausted: no test can run */
	p->message_bytes = 0;
}

static void control_message(struct conn *c, struct perftest_conn *p, const uint8_t *head,
			    uint32_t bytes)
{
	/* A client sends its next message only after the answer to the last one. */
	if (p->message_bytes || bytes > sizeof(p->message)) {
		conn_close(c, CONN_END_PROTOCOL);
		return;
	}
	memcpy(p->message, head, bytes);
	p->message_bytes = bytes;
}

/* ---- Data ---- */

static void data_message(struct conn *c, struct perftest_conn *p, uint32_t bytes)
{
	unsigned waiting = 0;

	stat_add(c->worker->stats.operations[OPERATION_MESSAGE].count, 1);
	if (p->length != bytes) { /* the first of its size */
		p->length = bytes;
		p->taken = p->credited = 0;
		p->between = false;
	}
	p->taken++;
	if (c->worker->service->flags & SERVICE_ANSWERS) {
		waiting = remote_send_scratch(c, bytes);
		p->piped |= waiting > 1;
		if (!waiting)
			conn_close(c, CONN_END_PROTOCOL);
	}
}

static void perftest_message(struct conn *c, const uint8_t *head, uint32_t bytes)
{
	struct perftest_conn *p = c->state;

	if (p->step == PERFTEST_NEW) {
		p->step = PERFTEST_DATA;
		if (bytes == PERFTEST_VERSION && perftest_parse(head, bytes) == PERFTEST_HELLO) {
			session_part(&p->of, NULL); /* it is the control connection of a new test */
			p->step = PERFTEST_GREETED;
		}
	}
	if (p->step == PERFTEST_DATA)
		data_message(c, p, bytes);
	else
		control_message(c, p, head, bytes);
}

/* ---- A connection ---- */

static void perftest_run(struct conn *c)
{
	struct perftest_conn *p = c->state;

	if (conn_is_exchange(c))
		exchange_run(c);
	else if (p->message_bytes)
		control_run(c, p);
	else if (p->step == PERFTEST_CONNECTS && conn_deadline_passed(c))
		conn_close(c, CONN_END_IDLE);
	else if (p->iwarp && p->step == PERFTEST_DATA &&
		 (p->piped || !(c->worker->service->flags & SERVICE_ANSWERS)))
		credit_give(c, p);
}

static int perftest_open(struct conn *c)
{
	const struct engine_device *device = conn_device(c);
	struct perftest_conn *p;

	c->state = conn_is_exchange(c) ? calloc(1, sizeof(struct exchange_conn))
				       : calloc(1, sizeof(*p));
	if (!c->state)
		return -ENOMEM;
	c->flags |= CONN_LASTING; /* most connections are silent during a test */
	if (conn_is_exchange(c))
		return 0;
	p = c->state;
	session_member_init(&p->of, c);
	p->step = conn_is_pair(c) ? PERFTEST_DATA : PERFTEST_NEW;
	p->iwarp = device && !strcmp(device->transport, "iWARP");
	if (p->iwarp)
		test_join(c, p);
	return 0;
}

static void perftest_close(struct conn *c)
{
	struct perftest_conn *p = c->state;

	if (conn_is_exchange(c))
		free(c->state);
	else
		session_leave(&p->of, NULL);
}

static int perftest_connect(const struct worker *w, struct connect_data *connect_data)
{
	(void)w;
	connect_data->receives = RECEIVES_IWARP;
	connect_data->message_max = PERFTEST_MESSAGE_MAX;
	return 0;
}

#define PERFTEST_FLAGS                                                                             \
	(SERVICE_MESSAGES | SERVICE_REMOTE | SERVICE_REGION | SERVICE_SAME_WORKER |                \
	 SERVICE_EXCHANGES | SERVICE_WANTS_ADDRESS)
#define PERFTEST                                                                                   \
	.keys = &exchange_key_table, .shared_new = sessions_new, .shared_free = sessions_free,     \
	.connect = perftest_connect, .open = perftest_open, .run = perftest_run,                   \
	.message = perftest_message, .close = perftest_close

const struct service service_perftest = {
	.name = "perftest",
	.example = "ib_send_bw -R -F -p {port} {host}",
	.operations = { "test", "message" },
	.flags = PERFTEST_FLAGS,
	PERFTEST,
};

const struct service service_perftest_lat = {
	.name = "perftest-lat",
	.example = "ib_send_lat -R -F -p {port} {host}",
	.operations = { "test", "pong" },
	.flags = PERFTEST_FLAGS | SERVICE_ANSWERS,
	PERFTEST,
};
