/* iperf3's TCP streams.  Received bytes are counted and dropped; sent bytes are views of one
 * constant chunk.  Each stream runs on its own worker and compares its test's phase whenever it
 * runs.  Senders count the bytes that the kernel has accepted, as iperf3 does. */
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "bulk.h"
#include "conn.h"
#include "conn_op.h"
#include "iperf3.h"

enum { QUEUE = 256 * 1024 }; /* bytes kept ahead of the peer, at least */

struct iperf3_cpu iperf3_cpu_now(void)
{
	struct rusage usage;

	if (getrusage(RUSAGE_THREAD, &usage) < 0)
		return (struct iperf3_cpu){ 0 };
	return (struct iperf3_cpu){
		.user_ns = (uint64_t)usage.ru_utime.tv_sec * NS_PER_S +
			   (uint64_t)usage.ru_utime.tv_usec * NS_PER_US,
		.system_ns = (uint64_t)usage.ru_stime.tv_sec * NS_PER_S +
			     (uint64_t)usage.ru_stime.tv_usec * NS_PER_US,
	};
}

/* ---- The socket ---- */

static bool set_number(struct conn *c, int level, int name, int value)
{
	return conn_set_option(c, level, name, &value, sizeof(value)) == 0;
}

/* Sets both socket buffers; as in iperf3 it is an error if the kernel grants less. */
static int set_window(struct conn *c, int bytes)
{
	static const int names[] = { SO_RCVBUF, SO_SNDBUF };

	for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
		int actual = 0;

		if (!set_number(c, SOL_SOCKET, names[i], bytes) ||
		    conn_get_option(c, SOL_SOCKET, names[i], &actual, sizeof(actual)) < 0)
			return IPERF3_BUFFER_FAILED;
		if (actual < bytes)
			return IPERF3_BUFFER_SMALL;
	}
	return 0;
}

/* 0 or enum iperf3_error. */
static int set_options(struct conn *c, const struct iperf3_params *p)
{
	uint64_t fq_rate = p->fq_rate / 8; /* bytes/s */
	int rc = 0;

	if (p->window)
		rc = set_window(c, p->window);
	if (rc == 0 && p->tos && conn_set_traffic_class(c, (uint8_t)p->tos) < 0)
		rc = IPERF3_TOS_FAILED;
	if (rc == 0 && p->mss && !set_number(c, IPPROTO_TCP, TCP_MAXSEG, p->mss))
		rc = IPERF3_MSS_FAILED;
	if (rc == 0 && p->sends && fq_rate &&
	    conn_set_option(c, SOL_SOCKET, SO_MAX_PACING_RATE, &fq_rate, sizeof(fq_rate)) < 0)
		rc = IPERF3_PACING_FAILED;
	/* As in iperf3, an unknown congestion control is no error: the result names the one in use.
	 */
	if (rc == 0 && p->congestion[0] &&
	    conn_set_option(c, IPPROTO_TCP, TCP_CONGESTION, p->congestion, strlen(p->congestion)) <
		    0 &&
	    errno != ENOENT)
		rc = IPERF3_CONGESTION_FAILED;
	return rc;
}

void iperf3_stream_enter(struct conn *c)
{
	struct iperf3_conn *i = c->state;
	struct iperf3_test *t = i->member.test;
	const struct iperf3_params *p = &t->params;
	char congestion[IPERF3_CONGESTION_MAX] = "";
	uint8_t role = p->sends ? IPERF3_SENDS : IPERF3_RECEIVES;
	int error = set_options(c, p);

	c->flags |= CONN_LASTING; /* it ends with its control connection; at a low rate it has long
				     pauses */
	if (p->sends && p->receives)
		role = IPERF3_UNKNOWN;
	if (conn_get_option(c, IPPROTO_TCP, TCP_CONGESTION, congestion, sizeof(congestion) - 1) < 0)
		congestion[0] = '\0';
	atomic_store(&i->member.stream->role, role);
	iperf3_arrive(&i->member, error, congestion);
}

/* ---- Counting ---- */

static uint8_t role_of(const struct iperf3_conn *i)
{
	return atomic_load_explicit(&i->member.stream->role, memory_order_relaxed);
}

static void store_bytes(struct iperf3_stream *s, uint64_t bytes)
{
	atomic_store_explicit(&s->bytes, bytes, memory_order_relaxed);
}

/* Counts the bytes that a sender has sent, and its retransmits.  Of a send in flight the bytes that
 * the peer has acknowledged count. */
static void read_sender_info(struct conn *c)
{
	struct iperf3_conn *i = c->state;
	struct iperf3_stream *s = i->member.stream;
	struct tcp_info info = { 0 };
	uint64_t sent = c->bytes_out;

	if (role_of(i) == IPERF3_RECEIVES)
		return;
	if (conn_get_option(c, IPPROTO_TCP, TCP_INFO, &info, sizeof(info)) == 0) {
		s->retransmits = info.tcpi_total_retrans;
		s->window_max = MAX(s->window_max, info.tcpi_snd_wnd);
		if (info.tcpi_bytes_acked > sent)
			sent = MIN(info.tcpi_bytes_acked, sent + c->sending.bytes);
	}
	store_bytes(s, sent);
}

void iperf3_count(struct iperf3_conn *i)
{
	struct iperf3_stream *s = i->member.stream;

	s->retransmits_before = s->retransmits;
	s->bytes_before = atomic_load_explicit(&s->bytes, memory_order_relaxed);
	s->packets_before = atomic_load_explicit(&s->packets, memory_order_relaxed);
	s->lost_before = atomic_load_explicit(&s->lost, memory_order_relaxed);
	s->start_ns = clock_ns();
	s->cpu_start = iperf3_cpu_now();
	if (!i->begin_ns)
		i->begin_ns = s->start_ns;
}

void iperf3_count_end(struct iperf3_conn *i)
{
	struct iperf3_stream *s = i->member.stream;

	if (s->end_ns)
		return;
	s->end_ns = clock_ns();
	s->cpu_end = iperf3_cpu_now();
	iperf3_finish(&i->member);
}

static void stream_begin(struct conn *c)
{
	read_sender_info(c);
	iperf3_count(c->state);
}

static void stream_finish(struct conn *c)
{
	const struct iperf3_conn *i = c->state;

	if (!i->member.stream->end_ns)
		read_sender_info(c);
	iperf3_count_end(c->state);
}

/* Ends a stream before the control connection continues, as iperf3's server does: a receiving
 * client reads all blocks first, and its control connection only then. */
static void stream_end(struct conn *c)
{
	stream_finish(c);
	bulk_end(c);
	if (role_of(c->state) == IPERF3_SENDS)
		conn_close(c, CONN_END_PEER);
}

/* Handles a new phase of the test. */
static void stream_change_phase(struct conn *c, enum iperf3_phase phase)
{
	struct iperf3_conn *i = c->state;

	if (iperf3_begins_counting(i->phase, phase))
		stream_begin(c);
	if (phase == IPERF3_END)
		stream_end(c);
	else if (phase == IPERF3_DEAD)
		conn_close(c, (enum conn_end)atomic_load(&i->member.test->end));
	i->phase = (uint8_t)phase;
}

/* ---- Both directions at once ----
 *
 * A client with one thread (iperf3 before 3.16) writes up to ten blocks for each block that it
 * reads.  If the server received all ten at once, the test would measure this ratio instead of the
 * network.  So the server stops receiving while this worker has received more than it has sent and
 * the client leaves data unread.  A network that is slower in one direction is not affected: there
 * the client reads, and its receive window stays open. */

enum {
	AHEAD_MAX = 512 * 1024,     /* bytes: how much more may be received than sent */
	UNREAD_NS = 10 * NS_PER_MS, /* how long a client must leave data unread */
};

/* The i-th stream of t, if it is on this worker and has not ended; else NULL. */
static struct iperf3_stream *stream_here(const struct worker *w, struct iperf3_test *t, unsigned i)
{
	struct iperf3_stream *s = &t->streams[i];

	return s->worker == w && s->member ? s : NULL;
}

/* Has the client's receive window been full for a round trip, without an acknowledgement?  A client
 * that does not read may delay its acknowledgement by 40 ms. */
static bool window_is_full(const struct tcp_info *info)
{
	return (uint64_t)info->tcpi_unacked * info->tcpi_snd_mss >= info->tcpi_snd_wnd &&
	       (uint64_t)info->tcpi_last_ack_recv * 1000 > info->tcpi_rtt;
}

/* Has the client of s recently left its receive buffer half full or more, while s has more to send?
 */
static bool sender_is_unread(struct iperf3_stream *s)
{
	struct conn *c = s->member->of.conn;
	struct tcp_info info = { 0 };

	/* Only a stream with unsent output will run again by itself, and wake the streams that
	 * wait. */
	if (!conn_has_unsent(c) && !(c->flags & CONN_READY))
		return false;
	if (conn_get_option(c, IPPROTO_TCP, TCP_INFO, &info, sizeof(info)) < 0)
		return false;
	s->window_max = MAX(s->window_max, info.tcpi_snd_wnd);
	if (info.tcpi_snd_wnd < s->window_max / 2 || window_is_full(&info))
		s->unread_ns = c->worker->turn.now_ns;
	return c->worker->turn.now_ns - s->unread_ns < UNREAD_NS;
}

static bool is_unread(const struct worker *w, struct iperf3_test *t)
{
	for (unsigned i = 0; i < t->stream_count; i++) {
		struct iperf3_stream *s = stream_here(w, t, i);

		if (s && atomic_load_explicit(&s->role, memory_order_relaxed) == IPERF3_SENDS &&
		    sender_is_unread(s))
			return true;
	}
	return false;
}

/* Has this worker received more than it has sent? */
static bool is_ahead(const struct worker *w, struct iperf3_test *t)
{
	uint64_t received = 0, sent = AHEAD_MAX;

	for (unsigned i = 0; i < t->stream_count; i++) {
		const struct iperf3_stream *s = stream_here(w, t, i);
		uint64_t bytes = s ? atomic_load_explicit(&s->bytes, memory_order_relaxed) : 0;

		if (s && atomic_load_explicit(&s->role, memory_order_relaxed) == IPERF3_SENDS)
			sent += bytes;
		else
			received += bytes;
	}
	return received > sent;
}

static bool stream_must_wait(const struct conn *c)
{
	const struct iperf3_conn *i = c->state;
	struct iperf3_test *t = i->member.test;

	return t->params.sends && t->params.receives && !(c->flags & CONN_EOF) &&
	       i->phase != IPERF3_END && is_ahead(c->worker, t) && is_unread(c->worker, t);
}

/* Runs the streams that have stopped receiving: something was sent, or a stream has ended. */
static void wake_held(const struct conn *c)
{
	const struct iperf3_conn *i = c->state;
	struct iperf3_test *t = i->member.test;

	for (unsigned n = 0; t->params.sends && t->params.receives && n < t->stream_count; n++) {
		struct iperf3_stream *s = stream_here(c->worker, t, n);

		if (s && s->held)
			conn_ready(s->held);
	}
}

/* ---- Receiving ---- */

static void stream_receive(struct conn *c)
{
	struct iperf3_conn *i = c->state;
	struct iperf3_stream *s = i->member.stream;
	size_t bytes = c->rx.bytes;

	if (role_of(i) == IPERF3_UNKNOWN)
		iperf3_receives(&i->member);
	s->held = stream_must_wait(c) ? c : NULL;
	if (s->held)
		return;
	conn_op_begin(c, IPERF3_OP_RECEIVE);
	if (unlikely(i->member.test->params.skip_copy))
		bulk_drop(c);
	bulk_take(c);
	conn_op_end(c);
	if (role_of(i) == IPERF3_RECEIVES)
		store_bytes(s, atomic_load_explicit(&s->bytes, memory_order_relaxed) + bytes);
}

/* ---- Sending ---- */

/* Fills the constant chunk with digits; iperf3 does not check the data. */
static void stream_fill(uint8_t *bytes, uint32_t size)
{
	for (uint32_t at = 0; at < size; at++)
		bytes[at] = (uint8_t)('0' + at % 10);
}

/* When the bytes queued so far will have been sent at this rate. */
static uint64_t stream_next_ns(const struct iperf3_conn *i, uint64_t rate)
{
	double due_ns = (double)i->queued * 8 * NS_PER_S / (double)rate;

	return i->begin_ns + (uint64_t)MIN(due_ns, 1e18);
}

/* Computes the next bytes to queue: whole blocks, as the client waits for the rest of a partial
 * one, as many as the rate and the test's end allow.  false: none now. */
static bool stream_grant(struct conn *c, uint64_t now)
{
	struct iperf3_conn *i = c->state;
	struct iperf3_test *t = i->member.test;
	const struct iperf3_params *p = &t->params;
	uint64_t blocks = p->rate ? p->burst : MAX(QUEUE / p->len, 1U), bytes = blocks * p->len;

	if (p->rate) {
		double each_ns = (double)bytes * 8 * NS_PER_S / (double)p->rate, more;
		uint64_t next_ns = stream_next_ns(i, p->rate);

		if (now < next_ns) {
			conn_set_deadline(c, next_ns);
			return false;
		}
		more = (double)(now - next_ns) / each_ns;
		bytes += bytes * MIN((uint64_t)MIN(more, (double)QUEUE), QUEUE / bytes);
	}
	/* With omitted time the client ends the test: it counts its bytes from the end of its own
	 * omitted time. */
	if (p->limit_bytes && !p->omit_s)
		bytes = (iperf3_take_budget(t, bytes) + p->len - 1) / p->len * p->len;
	i->granted = bytes;
	i->queued += bytes;
	return bytes > 0;
}

/* Queues bytes of the constant chunk; the last view grows first, as blocks may be single bytes.
 * Returns how many. */
static uint32_t stream_push(struct conn *c, struct chunk *k, uint64_t bytes)
{
	struct pool *p = &c->worker->pool;
	struct view *v = c->tx.tail;
	uint32_t used = v && v->chunk == k ? (uint32_t)(v->data - k->base) + v->len : p->chunk_size;
	uint32_t n = (uint32_t)MIN(bytes, (uint64_t)p->chunk_size - used);

	if (n == 0) {
		n = (uint32_t)MIN(bytes, (uint64_t)p->chunk_size);
		bufq_push(&c->tx, view_new(p, k, k->base, n));
	} else {
		v->len += n;
		c->tx.bytes += n;
	}
	return n;
}

static void stream_send(struct conn *c)
{
	struct iperf3_conn *i = c->state;
	struct worker *w = c->worker;
	size_t queue = MAX((size_t)QUEUE, worker_share(w));
	struct chunk *k = conn_constant(c, stream_fill);
	uint64_t now;
	bool begun = false;

	store_bytes(i->member.stream, c->bytes_out);
	wake_held(c);
	if (!k || conn_queued_bytes(c) >= queue / 2)
		return;
	now = i->member.test->params.rate ? clock_ns() : 0;
	while (conn_queued_bytes(c) < queue) {
		if (i->granted == 0 && !stream_grant(c, now))
			return;
		if (!begun)
			conn_op_begin(c, IPERF3_OP_SEND);
		begun = true;
		i->granted -= stream_push(c, k, i->granted);
	}
}

void iperf3_stream_run(struct conn *c)
{
	struct iperf3_conn *i = c->state;
	struct iperf3_test *t = i->member.test;
	enum iperf3_phase phase = iperf3_phase(t);
	uint8_t role;

	if (unlikely(phase != i->phase))
		stream_change_phase(c, phase);
	if (c->flags & CONN_CLOSING)
		return;
	if (phase == IPERF3_SETUP) {
		/* A client sends only after TEST_RUNNING, which follows the phase: see
		 * control_start(). */
		if (c->rx.bytes || (c->flags & CONN_EOF))
			conn_close(c, c->rx.bytes ? CONN_END_PROTOCOL : CONN_END_PEER);
		return;
	}
	if (c->rx.bytes)
		stream_receive(c);
	if (c->flags & CONN_EOF) {
		conn_close(c, CONN_END_PEER);
		return;
	}
	if (phase == IPERF3_END)
		return;
	role = role_of(i);
	if (role == IPERF3_UNKNOWN &&
	    t->params.parallel <= atomic_load_explicit(&t->receivers, memory_order_relaxed)) {
		role = IPERF3_SENDS;
		atomic_store(&i->member.stream->role, role);
	}
	if (role == IPERF3_SENDS)
		stream_send(c);
}

void iperf3_stream_leave(struct conn *c)
{
	struct iperf3_conn *i = c->state;

	i->member.stream->held = NULL;
	if (i->phase != IPERF3_OMIT && i->phase != IPERF3_RUN)
		return;
	stream_finish(c);
	wake_held(c);
}
