/* netperf: the server side of its tests, TCP_STREAM, TCP_MAERTS, TCP_RR, TCP_CRR, UDP_STREAM and
 * UDP_RR, for any number of clients at once.
 *
 * A client's first connection controls its tests: the client requests a test, gets a port for the
 * data, connects there, and finally gets the counts.  The port is one of the listener's ports at
 * which no other test of this client's address waits, and if possible not the one of the control
 * connection: so address and port identify the test of a data connection.  UDP data comes to a
 * listener of its own: see session_twin_get(). */
#include <assert.h>
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "bulk.h"
#include "bytes.h"
#include "conn.h"
#include "conn_op.h"
#include "proto.h"
#include "session.h"
#include "sockaddr.h"
#include "util.h"

/* Time limit of each step that waits for the client. */
#define NETPERF_STEP_NS (10 * (uint64_t)NS_PER_S)

enum operation { OP_TEST, OP_TRANSACTION, OP_RECEIVE, OP_SEND };

struct netperf_test {
	struct session session;         /* must be first */
	struct netperf_request request; /* constant once the test is listed */
	_Atomic bool dead; /* the control connection has ended: data connections close */

	/* Protected by the lock of the sessions. */
	struct netperf_result result; /* sums of ended connections; without times */
	unsigned ended;               /* data connections ended so far */
	uint64_t begin_ns, end_ns;    /* first connection opened, last one closed; 0: not yet */
	uint64_t cpu_ns; /* CPU time of the workers: at the begin, later the difference */
};

/* The step of a connection; control connections pass them in this order. */
enum netperf_step {
	NETPERF_NEW, /* control or data: not known yet */
	NETPERF_DATA,
	NETPERF_OVER,      /* UDP: the test has ended; late datagrams are dropped */
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
	unsigned ended;           /* value of test->ended when this connection last ran */
	struct sessions *own;     /* the sessions of its listener */
	struct session_twin twin; /* UDP test: the UDP listener that receives its data */

	/* Data. */
	struct netperf_test *test;
	uint64_t asked;                /* bytes received of an incomplete request */
	uint64_t unsent;               /* bytes still to be sent */
	uint64_t moved;                /* bytes received and sent when the deadline last passed */
	struct netperf_result counted; /* what this connection adds to test->result */
	uint32_t before;               /* value of counted.receives when the deadline last passed */
	uint64_t late_ns;              /* silence before its end, which is not part of the test */
};
static_assert(offsetof(struct netperf_conn, of) == 0, "see session_leave()");
static_assert(offsetof(struct netperf_test, session) == 0, "see struct session");

/* ---- Data connections: input is dropped, as in discard; output is views of one chunk, as in
 * chargen ---- */

enum { QUEUE = 256 * 1024 }; /* bytes kept ahead of the peer, at least */

/* UDP: time after the end of the test in which datagrams are still expected, as in netperf's own
 * server. */
#define LATE_NS (4 * (uint64_t)NS_PER_S)

/* Options that the kernel refuses are ignored: the result contains the values in use. */
static void set_options(struct conn *c, const struct netperf_request *r)
{
	if (r->send_buffer)
		conn_set_option(c, SOL_SOCKET, SO_SNDBUF, &r->send_buffer, sizeof(r->send_buffer));
	if (r->receive_buffer)
		conn_set_option(c, SOL_SOCKET, SO_RCVBUF, &r->receive_buffer,
				sizeof(r->receive_buffer));
	if (r->congestion[0])
		conn_set_option(c, IPPROTO_TCP, TCP_CONGESTION, r->congestion,
				strlen(r->congestion));
}

static void read_socket_options(struct conn *c, struct netperf_result *counted)
{
	struct tcp_info info = { 0 };

	conn_get_option(c, SOL_SOCKET, SO_SNDBUF, &counted->send_buffer, sizeof(int));
	conn_get_option(c, SOL_SOCKET, SO_RCVBUF, &counted->receive_buffer, sizeof(int));
	conn_get_option(c, IPPROTO_TCP, TCP_CONGESTION, counted->congestion,
			sizeof(counted->congestion) - 1);
	conn_get_option(c, IPPROTO_TCP, TCP_INFO, &info, sizeof(info));
	counted->retransmits = info.tcpi_total_retrans;
}

/* CPU time of all of the listener's workers so far. */
static uint64_t netperf_cpu_ns(const struct worker *w)
{
	uint64_t ns = 0;

	for (unsigned i = 0; i < w->team.count; i++) {
		struct timespec used;
		/* The clock id of a thread as the kernel encodes it: pthread_getcpuclockid() needs
		 * a thread that was not joined. */
		clockid_t clock = (clockid_t)(~(unsigned)w->team.workers[i].thread.tid << 3 | 6);

		if (clock_gettime(clock, &used) == 0)
			ns += (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec;
	}
	return ns;
}

/* ---- Sending ---- */

/* The contents do not matter: netperf does not check them. */
static void fill_payload(uint8_t *bytes, uint32_t size)
{
	memset(bytes, 'n', size);
}

/* Queues unsent bytes, up to QUEUE ahead of the peer; the rest when the peer has taken these. */
static void send_unsent(struct conn *c, struct netperf_conn *n)
{
	struct worker *w = c->worker;
	size_t queue = MAX((size_t)QUEUE, worker_share(w));
	struct chunk *k = conn_constant(c, fill_payload);

	if (!k)
		return;
	n->counted.sends++;
	while (n->unsent > 0 && conn_queued_bytes(c) < queue) {
		uint32_t bytes = (uint32_t)MIN(n->unsent, (uint64_t)w->pool.chunk_size);

		bufq_push(&c->tx, view_new(&w->pool, k, k->base, bytes));
		n->unsent -= bytes;
	}
	if (n->unsent > 0)
		c->flags |= CONN_WATCH_TX;
	else
		c->flags &= ~(uint32_t)CONN_WATCH_TX;
}

/* ---- Kinds ---- */

static void stream_run(struct conn *c, struct netperf_conn *n)
{
	if (!c->rx.bytes)
		return;
	n->counted.receives++;
	conn_op_begin(c, OP_RECEIVE);
	bulk_take(c);
	conn_op_end(c);
}

/* TCP_MAERTS: sends until the test's time or amount of data is reached. */
static void maerts_run(struct conn *c, struct netperf_conn *n)
{
	bufq_clear(&c->worker->pool, &c->rx);
	/* When its time is over the client stops reading, so queued output could never be sent. */
	if ((conn_deadline_passed(c) && clock_ns() >= n->until_ns) || (c->flags & CONN_EOF)) {
		conn_close(c, CONN_END_PEER);
		return;
	}
	if (n->unsent > 0 && conn_queued_bytes(c) < QUEUE / 2) {
		conn_op_begin(c, OP_SEND);
		send_unsent(c, n);
	}
	if (n->unsent == 0)
		conn_close_when_sent(c, CONN_END_PEER);
}

/* Requests are counted, not kept: one may be larger than what a connection may hold. */
static void transactions_run(struct conn *c, struct netperf_conn *n)
{
	const struct netperf_request *r = &n->test->request;
	uint64_t requests;

	n->asked += c->rx.bytes;
	bufq_clear(&c->worker->pool, &c->rx);
	if (c->flags & CONN_LAST) /* the answer of TCP_CRR is on its way */
		return;
	requests = n->asked / r->request_bytes;
	n->asked %= r->request_bytes;
	if (requests > 0) {
		n->counted.receives++;
		n->counted.transactions += requests;
		conn_op_begin_some(c, OP_TRANSACTION, requests);
		n->unsent += requests * r->response_bytes;
	}
	if (n->unsent > 0)
		send_unsent(c, n);
	if (r->kind == NETPERF_CRR && n->counted.transactions > 0 && n->unsent == 0)
		conn_close_when_sent(c, CONN_END_PEER);
}

/* Ends a test whose client has disappeared without a FIN: such a client is only silent.  Sets the
 * next deadline.  False: no byte has moved since the previous deadline. */
static bool data_has_moved(struct conn *c, struct netperf_conn *n)
{
	uint64_t moved = c->bytes_in + c->bytes_out;

	if (moved == n->moved)
		return false;
	n->moved = moved;
	conn_set_deadline(c, MIN(n->until_ns, clock_ns() + NETPERF_STEP_NS));
	return true;
}

/* ---- Datagrams ---- */

static void datagrams_answer(struct conn *c, struct netperf_conn *n, struct chunk *k,
			     uint64_t count)
{
	struct worker *w = c->worker;
	uint32_t bytes = n->test->request.response_bytes;

	if (bytes > w->pool.chunk_size) {
		stat_add(w->stats.operations[OP_TRANSACTION].errors, count);
		return;
	}
	n->counted.transactions += count;
	n->counted.sends += (uint32_t)count;
	conn_op_begin_some(c, OP_TRANSACTION, count);
	while (count-- > 0)
		bufq_push(&c->tx, view_new(&w->pool, k, k->base, bytes));
}

/* Drops and counts received datagrams.  *ret_last: an empty one has arrived, which marks the end
 * (the client sends three). */
static uint64_t datagrams_take(struct conn *c, struct netperf_conn *n, bool *ret_last)
{
	uint64_t count = 0;

	for (*ret_last = false; c->rx.head && !*ret_last; count++) {
		n->counted.bytes_in += c->rx.head->len;
		*ret_last = c->rx.head->len == 0;
		bufq_drop_views(&c->worker->pool, &c->rx, 1);
	}
	count -= *ret_last;
	n->counted.receives += (uint32_t)count;
	return count;
}

/* The empty datagrams that mark the end may be lost.  True: the test's time has been over for
 * LATE_NS or, in a test without a time, the client has been silent for as long. */
static bool datagrams_are_late(struct conn *c, struct netperf_conn *n)
{
	if (!conn_deadline_passed(c))
		return false;
	if (n->test->request.time_s || n->counted.receives == n->before)
		return true;
	n->before = n->counted.receives;
	conn_set_deadline(c, clock_ns() + LATE_NS);
	return false;
}

/* True: the test is over.  The connection stays, to drop late datagrams. */
static bool datagrams_run(struct conn *c, struct netperf_conn *n)
{
	bool answers = n->test->request.kind == NETPERF_RR, last;
	struct chunk *k = answers ? conn_constant(c, fill_payload) : NULL;
	uint64_t count;

	if (answers && !k)
		return false;
	count = datagrams_take(c, n, &last);
	if (count > 0 && answers) {
		datagrams_answer(c, n, k, count);
	} else if (count > 0) {
		conn_op_begin_some(c, OP_RECEIVE, count);
		conn_op_end(c);
	}
	if (!last && datagrams_are_late(c, n)) {
		n->late_ns = LATE_NS;
		last = true;
	}
	return last;
}

/* True: a UDP test is over. */
static bool netperf_data_run(struct conn *c)
{
	struct netperf_conn *n = c->state;

	if (atomic_load_explicit(&n->test->dead, memory_order_relaxed)) {
		conn_close(c, CONN_END_PEER);
		return false;
	}
	if (n->test->request.datagrams)
		return datagrams_run(c, n);
	switch (n->test->request.kind) {
	case NETPERF_STREAM:
		stream_run(c, n);
		break;
	case NETPERF_MAERTS:
		maerts_run(c, n);
		break;
	case NETPERF_RR:
	case NETPERF_CRR:
		transactions_run(c, n);
		break;
	}
	if (conn_deadline_passed(c) && !data_has_moved(c, n))
		conn_close(c, CONN_END_IDLE);
	return false;
}

/* c, a data connection, has joined its test. */
static void netperf_data_begin(struct conn *c)
{
	struct netperf_conn *n = c->state;
	const struct netperf_request *r = &n->test->request;

	n->step = NETPERF_DATA;
	if (r->traffic_class >= 0)
		conn_set_traffic_class(c, (uint8_t)r->traffic_class);
	if (r->datagrams) {
		conn_set_deadline(c, clock_ns() + r->time_s * (uint64_t)NS_PER_S + LATE_NS);
		return;
	}
	c->flags |= CONN_LASTING; /* it ends with its control connection */
	set_options(c, r);
	n->until_ns = n->moved = UINT64_MAX;
	if (r->kind == NETPERF_MAERTS) {
		n->unsent = r->limit ? r->limit : UINT64_MAX;
		if (r->time_s)
			n->until_ns = clock_ns() + r->time_s * (uint64_t)NS_PER_S;
	}
	data_has_moved(c, n);
}

/* Completes the counts of a data connection that ends. */
static void netperf_data_end(struct conn *c)
{
	struct netperf_conn *n = c->state;

	n->counted.bytes_out = c->bytes_out;
	if (n->test->request.datagrams)
		return;
	n->counted.bytes_in = c->bytes_in;
	if (n->test->request.kind != NETPERF_CRR)
		read_socket_options(c, &n->counted);
}

/* Control connections run at this interval during a test, so that they never count as idle. */
#define TICK_NS  (500 * (uint64_t)NS_PER_MS)
#define RETRY_NS (5 * (uint64_t)NS_PER_MS) /* interval of attempts to get a free port */
/* TCP_CRR: grace for connections that began before the end of the test: no message marks the last
 * one. */
#define LINGER_NS (200 * (uint64_t)NS_PER_MS)

/* ---- The port ---- */

/* Can data for the address of sa arrive on the listening socket a?  Returns its port, which sa has
 * afterwards. 0: it cannot, or the client asked for another port. */
static uint16_t port_at(const struct conn *c, const struct netperf_conn *n,
			const struct acceptor *a, struct sockaddr_storage *sa)
{
	struct sockaddr_storage own = { .ss_family = AF_UNSPEC };
	struct in6_addr address = sockaddr_mapped(sa), mine;
	socklen_t length = sizeof(own);
	uint16_t port;

	stat_add(c->worker->stats.sys_other, 1);
	if (a->fd < 0 || getsockname(a->fd, (struct sockaddr *)&own, &length) < 0)
		return 0;
	mine = sockaddr_mapped(&own);
	port = sockaddr_port(&own);
	if ((!sockaddr_is_wildcard(&own) && !IN6_ARE_ADDR_EQUAL(&mine, &address)) ||
	    (n->request.port && n->request.port != port))
		return 0;
	sockaddr_set_port(sa, port);
	return port;
}

/* Registers the session for data that arrives at this port. 0; -EAGAIN: another test of this client
 * awaits data there; -EBUSY: too many tests. */
static int list_locked(struct netperf_conn *n, struct session *session, uint16_t port)
{
	struct session_address key = n->key;

	put_be16(key.port, port);
	return session_begin(session, &n->of, &key, sizeof(key));
}

/* Registers the session at one of the listener's ports: the control connection's only if there is
 * no other, or if the client asked for it.  The caller holds the lock.  Returns the port, or -errno
 * as test_begin(). */
static int list_tcp_locked(const struct conn *c, struct netperf_conn *n, struct session *session)
{
	const struct worker *w = c->worker;
	struct sockaddr_storage sa = conn_local_address(c);
	uint16_t own = sockaddr_port(&sa), only = 0;
	int rc = -EADDRNOTAVAIL;

	for (unsigned i = 0; i < w->accept.count && (rc == -EADDRNOTAVAIL || rc == -EAGAIN); i++) {
		uint16_t port = port_at(c, n, &w->accept.acceptors[i], &sa);

		if (port && port == own && !n->request.port)
			only = port;
		else if (port)
			rc = list_locked(n, session, port);
		if (rc == 0)
			return port;
	}
	if (rc == -EADDRNOTAVAIL && only)
		rc = list_locked(n, session, only);
	return rc < 0 ? rc : only;
}

static int list_twin(const struct conn *c, struct netperf_conn *n, struct session *session)
{
	struct worker *w = c->worker;
	struct sockaddr_storage sa = conn_local_address(c);
	uint32_t most = MAX(n->request.request_bytes, n->request.response_bytes);
	int rc = -EPROTONOSUPPORT;

	for (unsigned i = 0; i < w->accept.count && rc != -EBUSY; i++) {
		uint16_t port = port_at(c, n, &w->accept.acceptors[i], &sa);

		if (!port || !session_twin_get(w->service, &sa, &n->twin))
			continue;
		n->of.sessions = n->twin.sessions;
		sessions_lock(n->of.sessions);
		rc = most > n->twin.datagram_max ? -EMSGSIZE : list_locked(n, session, port);
		sessions_unlock(n->of.sessions);
		if (rc == 0)
			return port;
		n->of.sessions = n->own;
		session_twin_put(&n->twin);
	}
	if (rc == -EPROTONOSUPPORT)
		session_twin_missing(c);
	return rc;
}

/* ---- The test ---- */

/* Begins a test of control connection c.  Its port is one at which no other test of this client's
 * address awaits data; a UDP test has a port of the UDP listener.  Returns the port. -EAGAIN: all
 * ports are in use now; -EADDRNOTAVAIL: no port is suitable; -EPROTONOSUPPORT: no UDP listener;
 * -EMSGSIZE: its datagrams are too small; -EBUSY: too many tests; -ENOMEM. */
static int test_begin(const struct conn *c, struct netperf_conn *n)
{
	struct netperf_test *t = calloc(1, sizeof(*t));
	int port;

	if (!t)
		return -ENOMEM;
	t->request = n->request;
	n->test = t;
	if (n->request.datagrams) {
		port = list_twin(c, n, &t->session);
	} else {
		sessions_lock(n->of.sessions);
		port = list_tcp_locked(c, n, &t->session);
		sessions_unlock(n->of.sessions);
	}
	if (port < 0) {
		n->test = NULL;
		free(t);
	}
	return port;
}

/* Data connection n joins the test. */
static void test_join_locked(struct netperf_test *t, struct netperf_conn *n)
{
	session_join(&t->session, &n->of);
	n->test = t;
	if (t->request.kind != NETPERF_CRR)
		session_unlist(&t->session); /* frees the port for another test */
	if (t->begin_ns)
		return;
	t->begin_ns = clock_ns();
	if (t->request.wants_cpu)
		t->cpu_ns = netperf_cpu_ns(n->of.worker);
	session_call(t->session.control);
}

static void data_left_locked(struct netperf_conn *n)
{
	struct netperf_test *t = n->test;
	struct netperf_result *sum = &t->result, *counted = &n->counted;

	t->ended++;
	t->end_ns = clock_ns() - n->late_ns;
	if (t->request.wants_cpu && t->request.kind != NETPERF_CRR)
		t->cpu_ns = netperf_cpu_ns(n->of.worker) - t->cpu_ns;
	sum->bytes_in += counted->bytes_in;
	sum->bytes_out += counted->bytes_out;
	sum->transactions += counted->transactions;
	sum->receives += counted->receives;
	sum->sends += counted->sends;
	sum->retransmits += counted->retransmits;
	sum->receive_buffer = MAX(sum->receive_buffer, counted->receive_buffer);
	sum->send_buffer = MAX(sum->send_buffer, counted->send_buffer);
	if (counted->congestion[0])
		memcpy(sum->congestion, counted->congestion, sizeof(sum->congestion));
	if (t->request.kind != NETPERF_CRR ||
	    (t->request.limit && sum->transactions >= t->request.limit))
		session_call(t->session.control);
}

/* The callback left() of session_leave() and session_part(): tells the others of the test. */
static void left_locked(struct session_member *member)
{
	struct netperf_conn *n = container_of(member, struct netperf_conn, of);

	if (n->step == NETPERF_DATA) {
		data_left_locked(n);
	} else {
		atomic_store(&n->test->dead, true);
		session_call_data(&n->test->session);
	}
}

/* Removes n from its test.  The end of a data connection completes the test's counts; the end of
 * the control connection closes the data connections. */
static void test_leave(struct netperf_conn *n)
{
	session_part(&n->of, left_locked);
	n->test = NULL;
	n->of.sessions = n->own;
	session_twin_put(&n->twin);
}

/* ---- Data ---- */

static void data_run(struct conn *c)
{
	struct netperf_conn *n = c->state;

	if (!netperf_data_run(c))
		return;
	netperf_data_end(c);
	test_leave(n);
	n->step = NETPERF_OVER;
	conn_set_deadline(c, clock_ns() + NS_PER_S);
}

/* ---- Control ---- */

/* The size that the kernel sets if `wanted` bytes are requested for a socket buffer; wanted 0: the
 * default. */
static int buffer_size(struct worker *w, int name, int wanted)
{
	int fd =
		wanted ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) : w->accept.acceptors[0].fd;
	int size = 0;
	socklen_t length = sizeof(size);

	if (wanted)
		setsockopt(fd, SOL_SOCKET, name, &wanted, sizeof(wanted));
	getsockopt(fd, SOL_SOCKET, name, &size, &length);
	stat_add(w->stats.sys_other, wanted ? 4 : 1);
	if (wanted && fd >= 0)
		close(fd);
	return size;
}

static void control_ask(struct conn *c, struct netperf_conn *n)
{
	n->step = NETPERF_ASK;
	c->flags &= ~(uint32_t)CONN_LASTING;
	conn_set_deadline(c, clock_ns() + NETPERF_STEP_NS);
}

static void control_refuse(struct conn *c, struct netperf_conn *n, int error)
{
	uint8_t message[NETPERF_MESSAGE];

	stat_add(c->worker->stats.operations[OP_TEST].errors, 1);
	netperf_format_error(message, error);
	if (conn_write(c, message, sizeof(message)) < 0)
		conn_close(c, CONN_END_ERROR); /* the pool is exhausted: no test can run */
	else
		control_ask(c, n);
}

static void control_tick(struct conn *c, uint64_t at_ns)
{
	conn_set_deadline(c, MIN(at_ns, clock_ns() + TICK_NS));
}

/* Begins the requested test, and answers with its port. */
static void control_begin(struct conn *c, struct netperf_conn *n)
{
	struct worker *w = c->worker;
	struct netperf_response response = { 0 };
	uint8_t message[NETPERF_MESSAGE];
	uint64_t time_ns = NETPERF_STEP_NS;
	char options[CONN_TEST_MAX];
	int port = test_begin(c, n);

	if (port == -EAGAIN && clock_ns() < n->until_ns) {
		conn_set_deadline(c, clock_ns() + RETRY_NS);
		return;
	}
	if (port < 0) {
		control_refuse(c, n, port == -EAGAIN ? EADDRINUSE : -port);
		return;
	}
	response.port = (uint16_t)port;
	if (n->request.datagrams) {
		response.receive_buffer = n->twin.receive_buffer;
		response.send_buffer = n->twin.send_buffer;
		time_ns += n->request.time_s * (uint64_t)NS_PER_S;
	} else {
		response.receive_buffer = buffer_size(w, SO_RCVBUF, n->request.receive_buffer);
		response.send_buffer = buffer_size(w, SO_SNDBUF, n->request.send_buffer);
	}
	netperf_format_response(message, &n->request, &response);
	if (!conn_try_write(c, message, sizeof(message))) {
		test_leave(n);
		return;
	}
	netperf_write_options(&n->request, options, sizeof(options));
	conn_log(c, LOG_INFO, "%s test: %s", c->worker->service->name, options);
	conn_op_begin(c, OP_TEST);
	n->step = NETPERF_WAIT_DATA;
	c->flags |= CONN_LASTING; /* each step of a test has its own time limit */
	n->until_ns = clock_ns() + time_ns;
	control_tick(c, n->until_ns);
}

static void control_read(struct conn *c, struct netperf_conn *n)
{
	uint8_t message[NETPERF_MESSAGE];
	int rc;

	if (c->rx.bytes < sizeof(message)) {
		if (conn_deadline_passed(c))
			conn_close(c, CONN_END_IDLE);
		return;
	}
	bufq_read(&c->worker->pool, &c->rx, message, sizeof(message));
	rc = netperf_parse(message, &n->request);
	if (rc == -EPROTO) {
		conn_close(c, CONN_END_PROTOCOL);
	} else if (rc < 0) {
		control_refuse(c, n, -rc);
	} else {
		n->step = NETPERF_WAIT_PORT;
		n->until_ns = clock_ns() + NETPERF_STEP_NS;
		control_begin(c, n);
	}
}

/* Is the test over?  In TCP_CRR no message marks the last connection, so the client's time or count
 * decides. */
static bool test_is_over(const struct netperf_conn *n, const struct netperf_test *seen)
{
	const struct netperf_request *r = &seen->request;

	if (r->kind != NETPERF_CRR)
		return seen->ended > 0;
	if (r->limit)
		return seen->result.transactions >= r->limit;
	return clock_ns() >= n->until_ns;
}

static void control_finish(struct conn *c, struct netperf_conn *n, const struct netperf_test *seen)
{
	struct netperf_result result = seen->result;
	uint64_t elapsed_ns = MAX(seen->end_ns, seen->begin_ns + 1) - seen->begin_ns;
	uint64_t cpu_ns = seen->cpu_ns;
	uint8_t message[NETPERF_MESSAGE];

	result.elapsed_s = (double)elapsed_ns / NS_PER_S;
	result.cpus = (unsigned)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1);
	if (seen->request.kind == NETPERF_CRR)
		cpu_ns = netperf_cpu_ns(c->worker) - cpu_ns;
	if (seen->request.datagrams) {
		result.receive_buffer = n->twin.receive_buffer;
		result.send_buffer = n->twin.send_buffer;
	}
	if (seen->request.wants_cpu)
		result.cpu_percent = 100.0 * (double)cpu_ns / (double)elapsed_ns / result.cpus;
	netperf_format_result(message, &result);
	if (!conn_try_write(c, message, sizeof(message)))
		return;
	conn_op_end(c);
	test_leave(n);
	control_ask(c, n);
}

static void control_check(struct conn *c, struct netperf_conn *n)
{
	struct netperf_test seen;
	bool late;

	sessions_lock(n->of.sessions);
	memcpy(&seen, n->test, sizeof(seen));
	sessions_unlock(n->of.sessions);
	if (n->step == NETPERF_WAIT_DATA && seen.begin_ns) {
		n->step = NETPERF_RUN;
		n->until_ns = UINT64_MAX;
		if (seen.request.kind == NETPERF_CRR)
			n->until_ns = seen.begin_ns + seen.request.time_s * (uint64_t)NS_PER_S +
				      (seen.request.time_s ? LINGER_NS : NETPERF_STEP_NS);
	}
	if (n->step == NETPERF_RUN && seen.request.kind == NETPERF_CRR && seen.request.limit &&
	    seen.ended != n->ended)
		n->until_ns = clock_ns() + NETPERF_STEP_NS; /* the transfer continues */
	n->ended = seen.ended;
	late = clock_ns() >= n->until_ns;
	/* A late UDP test has a result, too: all datagrams were lost. */
	if ((n->step == NETPERF_RUN && test_is_over(n, &seen)) || (late && seen.request.datagrams))
		control_finish(c, n, &seen);
	else if (late)
		conn_close(c, CONN_END_IDLE);
	else
		control_tick(c, n->until_ns);
}

/* ---- Control connection or data connection? ---- */

/* Joins the test that awaits data from this address at this port.  The server sends first in
 * TCP_MAERTS; all other tests need input.  False: there is no such test. */
static bool data_join(struct netperf_conn *n, bool has_input)
{
	struct sessions *all = n->of.sessions;
	struct session *found;
	struct netperf_test *t;

	sessions_lock(all);
	found = session_find(all, &n->key, sizeof(n->key));
	t = found ? container_of(found, struct netperf_test, session) : NULL;
	if (t && (has_input || t->request.kind == NETPERF_MAERTS))
		test_join_locked(t, n);
	sessions_unlock(all);
	return n->test;
}

/* Can the bytes received so far be the begin of a control message? */
static bool may_be_message(const struct bufq *rx)
{
	uint8_t head[NETPERF_HEAD];
	size_t got = 0;

	for (const struct view *v = rx->head; v && got < sizeof(head); v = v->next) {
		size_t more = MIN(sizeof(head) - got, (size_t)v->len);

		memcpy(head + got, v->data, more);
		got += more;
	}
	return netperf_is_message(head, got);
}

/* Drops datagrams that belong to no test, including the last ones of a test that was given up. */
static void run_unmatched(struct conn *c, struct netperf_conn *n)
{
	if (!c->rx.head)
		return;
	session_address_of(c, &n->key);
	if (c->rx.bytes > 0 && data_join(n, true)) {
		conn_peer_verified(c);
		netperf_data_begin(c);
		data_run(c);
		return;
	}
	stat_add(c->worker->stats.datagrams_refused, c->rx.views);
	bufq_clear(&c->worker->pool, &c->rx);
}

/* Drops late datagrams of a finished test.  The connection stays while they arrive: without it they
 * would be taken for data of the next test at this port. */
static void over_run(struct conn *c)
{
	bufq_clear(&c->worker->pool, &c->rx);
	if (conn_deadline_passed(c))
		conn_close(c, CONN_END_PEER);
}

/* Decides the kind of a connection.  A control connection begins with a message; a data connection
 * begins with other bytes or, if the server sends, with silence.  Fewer bytes than a message's
 * header are data if a test awaits data here. */
static void new_run(struct conn *c, struct netperf_conn *n)
{
	bool message = may_be_message(&c->rx), ends = c->flags & CONN_EOF;

	if (message && c->rx.bytes >= NETPERF_HEAD) {
		control_ask(c, n);
		control_read(c, n);
	} else if (data_join(n, c->rx.bytes > 0 || ends)) {
		netperf_data_begin(c);
		data_run(c);
	} else if (!message || ends) {
		conn_close(c, c->rx.bytes ? CONN_END_PROTOCOL : CONN_END_PEER);
	} else if (conn_deadline_passed(c)) {
		conn_close(c, CONN_END_IDLE);
	}
}

static void netperf_run(struct conn *c)
{
	struct netperf_conn *n = c->state;

	switch ((enum netperf_step)n->step) {
	case NETPERF_NEW:
		if (c->worker->engine->messages)
			run_unmatched(c, n);
		else
			new_run(c, n);
		break;
	case NETPERF_DATA:
		data_run(c);
		break;
	case NETPERF_OVER:
		over_run(c);
		break;
	case NETPERF_ASK:
		control_read(c, n);
		break;
	case NETPERF_WAIT_PORT:
		control_begin(c, n);
		break;
	case NETPERF_WAIT_DATA:
	case NETPERF_RUN:
		control_check(c, n);
		break;
	}
}

static int netperf_open(struct conn *c)
{
	struct netperf_conn *n = calloc(1, sizeof(*n));

	if (!n)
		return -ENOMEM;
	session_member_init(&n->of, c);
	n->own = n->of.sessions;
	c->state = n;
	if (c->worker->engine->messages)
		return 0;
	session_address_of(c, &n->key);
	conn_set_deadline(c, clock_ns() + NETPERF_STEP_NS);
	return 0;
}

static void netperf_close(struct conn *c)
{
	struct netperf_conn *n = c->state;
	struct session_twin twin = n->twin;

	if (n->step == NETPERF_DATA)
		netperf_data_end(c);
	session_leave(&n->of, left_locked);
	session_twin_put(&twin);
}

const struct service service_netperf = {
	.keys = &bulk_key_table,
	.name = "netperf",
	.example = "netperf -H {host} -p {port} -t {transport}_rr",
	.operations = { "test", "transaction", "receive", "send" },
	.batches = 1U << OP_RECEIVE | 1U << OP_SEND,
	.shared_new = sessions_new,
	.shared_keep = sessions_keep,
	.shared_free = sessions_free,
	.listens = sessions_listen,
	.open = netperf_open,
	.run = netperf_run,
	.close = netperf_close,
	.flags = SERVICE_WANTS_ADDRESS | SERVICE_UDP,
};
