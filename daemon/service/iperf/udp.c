/* iperf3's UDP streams.  The first datagram of a stream names no test.  So it belongs to the test
 * that awaits streams from the same address at the same port, and whose control connection came to
 * that port over TCP. Tests of an address therefore await their streams one after the other.
 * Streams of one test may be on different workers. */
#include <errno.h>
#include <string.h>

#include "conn.h"
#include "conn_op.h"
#include "iperf3.h"

/* Silence after which missing datagrams count as lost. */
#define SILENCE_NS (100 * (uint64_t)NS_PER_MS)

enum { AHEAD = 64 }; /* datagrams kept queued */

/* ---- Control ---- */

int iperf3_reserve_address(struct conn *c)
{
	struct iperf3_conn *i = c->state;
	struct sockaddr_storage local = conn_local_address(c);
	struct session_address at;
	int rc;

	if (i->member.of.sessions == i->twin.sessions)
		return 0;
	if (!i->twin.sessions && !session_twin_get(c->worker->service, &local, &i->twin)) {
		session_twin_missing(c);
		return IPERF3_NO_PROTOCOL;
	}
	/* All clients share the socket, so no test may change its buffers. */
	if (i->member.test->params.window > MIN(i->twin.receive_buffer, i->twin.send_buffer))
		return IPERF3_BUFFER_SMALL;
	/* Refused here, as a client that awaits the answer to its first datagram does not read
	 * errors. */
	if (i->member.test->params.len > i->twin.datagram_max)
		return IPERF3_BAD_DATAGRAM;
	session_address_of(c, &at);
	rc = session_move(&i->member.test->session, i->twin.sessions, &at, sizeof(at));
	if (rc < 0)
		session_twin_put(&i->twin); /* before the next attempt a reload may have replaced
					       the UDP listener */
	return rc < 0 && rc != -EAGAIN ? IPERF3_ACCESS_DENIED : rc;
}

bool iperf3_datagrams_arrived(struct iperf3_conn *i, uint64_t now_ns)
{
	const struct iperf3_test *t = i->member.test;
	uint64_t bytes = iperf3_bytes(t);
	bool all = true;

	for (unsigned k = 0; k < t->stream_count; k++)
		if (atomic_load(&i->sorted[k]->role) == IPERF3_RECEIVES)
			all &= atomic_load_explicit(&i->sorted[k]->packets, memory_order_acquire) >=
			       i->expected[k].packets;
	if (bytes != i->progress_bytes)
		i->progress_ns = now_ns;
	i->progress_bytes = bytes;
	return all || now_ns > i->progress_ns + SILENCE_NS;
}

/* ---- Begin of a stream ---- */

/* Drops datagrams that belong to no test, and repeated first datagrams. */
static void drop(struct conn *c)
{
	stat_add(c->worker->stats.datagrams_refused, c->rx.views);
	bufq_clear(&c->worker->pool, &c->rx);
}

static void stream_join(struct conn *c, const uint8_t answer[static IPERF3_HANDSHAKE])
{
	struct iperf3_conn *i = c->state;
	const struct iperf3_params *p;
	struct session_address at;
	int error = 0;

	session_address_of(c, &at);
	if (iperf3_join(&i->member, &at) < 0)
		return;
	i->step = STEP_STREAM;
	conn_peer_verified(c);
	p = &i->member.test->params;
	conn_set_traffic_class(c, (uint8_t)p->tos);
	if (p->len > c->worker->pool.chunk_size)
		error = IPERF3_BAD_DATAGRAM;
	else if (conn_write(c, answer, IPERF3_HANDSHAKE) < 0)
		error = IPERF3_STREAM_LOST;
	iperf3_arrive(&i->member, error, "");
}

static void run_unmatched(struct conn *c)
{
	struct iperf3_conn *i = c->state;
	uint8_t answer[IPERF3_HANDSHAKE];
	const struct view *v = c->rx.head;

	if (v && iperf3_is_handshake(v->data, v->len, answer))
		stream_join(c, answer);
	if (i->step == STEP_STREAM)
		bufq_drop_views(&c->worker->pool, &c->rx, 1);
	drop(c);
}

/* ---- Counting ---- */

static void publish(const struct iperf3_conn *i)
{
	struct iperf3_stream *s = i->member.stream;

	atomic_store_explicit(&s->lost, i->arrivals.lost, memory_order_relaxed);
	atomic_store_explicit(&s->jitter_s, i->arrivals.jitter_s, memory_order_relaxed);
	atomic_store_explicit(&s->packets, i->arrivals.high, memory_order_release);
}

static void stream_receive(struct conn *c)
{
	struct iperf3_conn *i = c->state;
	struct iperf3_stream *s = i->member.stream;
	bool wide = i->member.test->params.wide;
	uint64_t bytes = c->rx.bytes;

	conn_op_begin_all(c, IPERF3_OP_RECEIVE);
	for (; c->rx.head; bufq_drop_views(&c->worker->pool, &c->rx, 1))
		if (c->rx.head->len >= iperf3_header_bytes(wide))
			iperf3_arrived(&i->arrivals, c->rx.head->data, wide, clock_ns());
	conn_op_end(c);
	publish(i);
	atomic_fetch_add_explicit(&s->bytes, bytes, memory_order_relaxed);
}

/* ---- Sending ---- */

static size_t queued(const struct conn *c)
{
	return c->tx.views + c->sending.views;
}

/* Counts the datagrams that the kernel has taken. */
static void count_sent(struct conn *c)
{
	struct iperf3_conn *i = c->state;
	struct iperf3_stream *s = i->member.stream;
	uint64_t sent = i->numbered - MIN(i->numbered, (uint64_t)queued(c));

	atomic_store_explicit(&s->bytes, sent * i->member.test->params.len, memory_order_relaxed);
	atomic_store_explicit(&s->packets, sent, memory_order_release);
}

static bool datagram_add(struct conn *c, uint64_t now)
{
	struct iperf3_conn *i = c->state;
	const struct iperf3_params *p = &i->member.test->params;
	struct view *v = conn_room(c->worker, 0, p->len, 8);

	if (!v) {
		conn_wait_for_memory(c);
		return false;
	}
	memset(v->data, '3', p->len); /* the chunk may hold another client's data */
	iperf3_build_header(v->data, p->wide, now, ++i->numbered);
	bufq_push(&c->tx, v);
	return true;
}

/* The number of datagrams due by now, and the time of the next one. */
static uint64_t count_due(const struct iperf3_conn *i, uint64_t now, uint64_t *ret_next_ns)
{
	const struct iperf3_params *p = &i->member.test->params;
	uint64_t rate = p->fq_rate && p->fq_rate < p->rate ? p->fq_rate : p->rate;
	double each_ns, due;

	if (!rate)
		rate = p->fq_rate;
	*ret_next_ns = 0;
	if (!rate)
		return AHEAD;
	each_ns = (double)p->len * 8 * NS_PER_S / (double)rate;
	due = (double)(now - i->begin_ns) / each_ns + 1 - (double)i->numbered;
	*ret_next_ns = i->begin_ns + (uint64_t)MIN(each_ns * (double)(i->numbered + 1), 1e18);
	return due <= 0 ? 0 : (uint64_t)MIN(due, (double)AHEAD);
}

static void stream_send(struct conn *c)
{
	struct iperf3_conn *i = c->state;
	uint64_t now = clock_ns(), next_ns, due = count_due(i, now, &next_ns);
	size_t room = AHEAD - MIN(queued(c), (size_t)AHEAD);
	uint64_t added = 0;

	count_sent(c);
	c->flags |= CONN_WATCH_TX;
	for (due = MIN(due, room); added < due && datagram_add(c, now); added++)
		continue;
	if (added)
		conn_op_begin_some(c, IPERF3_OP_SEND, added);
	if (next_ns)
		conn_set_deadline(c, MAX(next_ns, now + NS_PER_MS));
}

/* ---- The test ---- */

static void stream_begin(struct conn *c)
{
	struct iperf3_conn *i = c->state;

	i->arrivals.jitter_s = 0;
	i->arrivals.begun = false;
	iperf3_count(i);
}

static void stream_change_phase(struct conn *c, enum iperf3_phase phase)
{
	struct iperf3_conn *i = c->state;

	if (iperf3_begins_counting(i->phase, phase))
		stream_begin(c);
	if (phase == IPERF3_DEAD)
		conn_close(c, (enum conn_end)atomic_load(&i->member.test->end));
	i->phase = (uint8_t)phase;
}

static void stream_run(struct conn *c)
{
	struct iperf3_conn *i = c->state;
	enum iperf3_phase phase = iperf3_phase(i->member.test);
	bool sends =
		atomic_load_explicit(&i->member.stream->role, memory_order_relaxed) == IPERF3_SENDS;

	if (unlikely(phase != i->phase))
		stream_change_phase(c, phase);
	if (c->flags & CONN_CLOSING)
		return;
	if (phase == IPERF3_SETUP || sends)
		drop(c);
	else if (c->rx.head)
		stream_receive(c);
	if (sends && (phase == IPERF3_OMIT || phase == IPERF3_RUN))
		stream_send(c);
	if (phase != IPERF3_END)
		return;
	if (sends)
		count_sent(c);
	if (!sends || queued(c) == 0)
		iperf3_count_end(i);
}

void iperf3_datagrams_run(struct conn *c)
{
	struct iperf3_conn *i = c->state;

	if (likely(i->step == STEP_STREAM))
		stream_run(c);
	else
		run_unmatched(c);
}

void iperf3_datagrams_leave(struct conn *c)
{
	struct iperf3_conn *i = c->state;

	if (i->phase == IPERF3_OMIT || i->phase == IPERF3_RUN || i->phase == IPERF3_END)
		iperf3_count_end(i);
}
