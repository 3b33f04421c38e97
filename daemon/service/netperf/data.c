/* netperf's data connections: input is dropped, as in discard; output is views of
 * one chunk, as in chargen. */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "bulk.h"
#include "conn.h"
#include "conn_op.h"
#include "netperf.h"

enum { QUEUE = 256 * 1024 }; /* bytes kept ahead of the peer, at least */

/* UDP: how long netperf's own server waits after the test for the last datagrams. */
#define PAD_NS (4 * (uint64_t)NS_PER_S)

/* ---- The socket, and the CPU time ---- */

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

static void look_at_socket(struct conn *c, struct netperf_result *counted)
{
	struct tcp_info info = { 0 };

	conn_get_option(c, SOL_SOCKET, SO_SNDBUF, &counted->send_buffer, sizeof(int));
	conn_get_option(c, SOL_SOCKET, SO_RCVBUF, &counted->receive_buffer, sizeof(int));
	conn_get_option(c, IPPROTO_TCP, TCP_CONGESTION, counted->congestion,
			sizeof(counted->congestion) - 1);
	conn_get_option(c, IPPROTO_TCP, TCP_INFO, &info, sizeof(info));
	counted->retransmits = info.tcpi_total_retrans;
}

uint64_t netperf_cpu_ns(const struct worker *w)
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
static void fill(uint8_t *bytes, uint32_t size)
{
	memset(bytes, 'n', size);
}

/* Queues owed bytes, up to QUEUE ahead of the peer; the rest when the peer has taken these. */
static void send_owed(struct conn *c, struct netperf_conn *n)
{
	struct worker *w = c->worker;
	size_t queue = MAX((size_t)QUEUE, worker_share(w));
	struct chunk *k = conn_constant(c, fill);

	if (!k)
		return;
	n->counted.sends++;
	while (n->owed > 0 && conn_queued_bytes(c) < queue) {
		uint32_t bytes = (uint32_t)MIN(n->owed, (uint64_t)w->pool.chunk_size);

		bufq_push(&c->tx, view_new(&w->pool, k, k->base, bytes));
		n->owed -= bytes;
	}
	if (n->owed > 0)
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
	conn_op_begin(c, NETPERF_OP_RECEIVE);
	bulk_take(c);
	conn_op_end(c);
}

/* TCP_MAERTS: sends until the time is over or the limit is reached. */
static void maerts_run(struct conn *c, struct netperf_conn *n)
{
	bufq_clear(&c->worker->pool, &c->rx);
	/* When the client's own time is over it reads no more: what is
	 * queued would wait for ever. */
	if ((conn_deadline_passed(c) && clock_ns() >= n->until_ns) || (c->flags & CONN_EOF)) {
		conn_close(c, CONN_END_PEER);
		return;
	}
	if (n->owed > 0 && conn_queued_bytes(c) < QUEUE / 2) {
		conn_op_begin(c, NETPERF_OP_SEND);
		send_owed(c, n);
	}
	if (n->owed == 0)
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
		conn_op_begin_some(c, NETPERF_OP_TRANSACTION, requests);
		n->owed += requests * r->response_bytes;
	}
	if (n->owed > 0)
		send_owed(c, n);
	if (r->kind == NETPERF_CRR && n->counted.transactions > 0 && n->owed == 0)
		conn_close_when_sent(c, CONN_END_PEER);
}

/* A vanished client shows only by its silence.  Sets the time of the next look; false: no byte has
 * moved since the last one. */
static bool data_goes_on(struct conn *c, struct netperf_conn *n)
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
		stat_add(w->stats.operations[NETPERF_OP_TRANSACTION].errors, count);
		return;
	}
	n->counted.transactions += count;
	n->counted.sends += (uint32_t)count;
	conn_op_begin_some(c, NETPERF_OP_TRANSACTION, count);
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

/* The end marks may be lost: true some time after the test's time, or, without a
 * time, after some silence. */
static bool datagrams_are_late(struct conn *c, struct netperf_conn *n)
{
	if (!conn_deadline_passed(c))
		return false;
	if (n->test->request.time_s || n->counted.receives == n->before)
		return true;
	n->before = n->counted.receives;
	conn_set_deadline(c, clock_ns() + PAD_NS);
	return false;
}

/* true: the test is over, but its data connection stays. */
static bool datagrams_run(struct conn *c, struct netperf_conn *n)
{
	bool answers = n->test->request.kind == NETPERF_RR, last;
	struct chunk *k = answers ? conn_constant(c, fill) : NULL;
	uint64_t count;

	if (answers && !k)
		return false;
	count = datagrams_take(c, n, &last);
	if (count > 0 && answers) {
		datagrams_answer(c, n, k, count);
	} else if (count > 0) {
		conn_op_begin_some(c, NETPERF_OP_RECEIVE, count);
		conn_op_end(c);
	}
	if (!last && datagrams_are_late(c, n)) {
		n->late_ns = PAD_NS;
		last = true;
	}
	return last;
}

bool netperf_data_run(struct conn *c)
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
	if (conn_deadline_passed(c) && !data_goes_on(c, n))
		conn_close(c, CONN_END_IDLE);
	return false;
}

void netperf_data_begin(struct conn *c)
{
	struct netperf_conn *n = c->state;
	const struct netperf_request *r = &n->test->request;

	n->step = NETPERF_DATA;
	if (r->traffic_class >= 0)
		conn_set_traffic_class(c, (uint8_t)r->traffic_class);
	if (r->datagrams) {
		conn_set_deadline(c, clock_ns() + r->time_s * (uint64_t)NS_PER_S + PAD_NS);
		return;
	}
	c->flags |= CONN_LASTING; /* it ends with control */
	set_options(c, r);
	n->until_ns = n->moved = UINT64_MAX;
	if (r->kind == NETPERF_MAERTS) {
		n->owed = r->limit ? r->limit : UINT64_MAX;
		if (r->time_s)
			n->until_ns = clock_ns() + r->time_s * (uint64_t)NS_PER_S;
	}
	data_goes_on(c, n);
}

void netperf_data_end(struct conn *c)
{
	struct netperf_conn *n = c->state;

	n->counted.bytes_out = c->bytes_out;
	if (n->test->request.datagrams)
		return;
	n->counted.bytes_in = c->bytes_in;
	if (n->test->request.kind != NETPERF_CRR)
		look_at_socket(c, &n->counted);
}
