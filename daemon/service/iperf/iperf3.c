/* iperf3: the server side of iperf3's TCP and UDP tests, for any number of clients at once.
 *
 * The first connection with a cookie controls a test, the next ones are its streams
 * (iperf/stream.c).  State shared by them over all workers is in iperf/test.c.  UDP streams come to
 * a listener of their own (iperf/udp.c). */
#include "iperf3.h"

#include <errno.h>
#include <stdlib.h>

#include "bulk.h"
#include "conn.h"

/* ---- The results ---- */

/* Has all that the client has sent, by its own count, arrived?  Cannot be decided after omitted
 * time, which begins and ends at different times on both sides: then true. */
static bool iperf3_all_arrived(const struct iperf3_conn *i)
{
	const struct iperf3_test *t = i->member.test;
	uint64_t expected = 0, received = 0;

	for (unsigned k = 0; k < t->stream_count; k++) {
		if (atomic_load(&i->sorted[k]->role) != IPERF3_RECEIVES)
			continue;
		expected += i->expected[k].bytes;
		received += iperf3_stream_bytes(i->sorted[k]);
	}
	return received >= expected || t->params.omit_s;
}

/* Assigns ids to streams.  Several workers may accept streams in another order than the client has
 * opened them, so each stream gets the id whose count of bytes equals its own. */
static void iperf3_match_streams(struct iperf3_conn *i)
{
	unsigned count = i->member.test->stream_count;

	for (unsigned k = 0; k < count; k++)
		for (unsigned m = k; m < count; m++) {
			struct iperf3_stream *s = i->sorted[m];

			if (!i->expected[k].bytes || atomic_load(&s->role) != IPERF3_RECEIVES ||
			    iperf3_stream_bytes(s) != i->expected[k].bytes)
				continue;
			i->sorted[m] = i->sorted[k];
			i->sorted[k] = s;
			break;
		}
}

static double percent(uint64_t used_ns, uint64_t time_ns)
{
	return time_ns ? 100.0 * (double)used_ns / (double)time_ns : 0;
}

/* Was the CPU time of the k-th stream's worker added already, for an earlier stream or for the
 * control connection? */
static bool is_counted(const struct iperf3_conn *i, unsigned k)
{
	const struct iperf3_stream *streams = i->member.test->streams;

	if (streams[k].worker == i->member.of.worker)
		return true;
	for (unsigned m = 0; m < k; m++)
		if (streams[m].worker == streams[k].worker && streams[m].end_ns)
			return true;
	return false;
}

/* Adds the CPU time of the workers that took part, each once. */
static void add_cpu(const struct iperf3_conn *i, struct iperf3_results *r)
{
	const struct iperf3_test *t = i->member.test;
	uint64_t user_ns = i->cpu_end.user_ns - i->cpu_start.user_ns;
	uint64_t system_ns = i->cpu_end.system_ns - i->cpu_start.system_ns;

	for (unsigned k = 0; k < t->stream_count; k++) {
		const struct iperf3_stream *s = &t->streams[k];

		if (!s->end_ns || is_counted(i, k))
			continue;
		user_ns += s->cpu_end.user_ns - s->cpu_start.user_ns;
		system_ns += s->cpu_end.system_ns - s->cpu_start.system_ns;
	}
	r->cpu_user = percent(user_ns, i->end_ns - i->start_ns);
	r->cpu_system = percent(system_ns, i->end_ns - i->start_ns);
}

static void fill_stream(const struct iperf3_stream *s, bool datagrams,
			struct iperf3_stream_result *to)
{
	to->sends = atomic_load(&s->role) == IPERF3_SENDS;
	to->bytes = iperf3_stream_bytes(s);
	to->retransmits = s->retransmits - s->retransmits_before;
	to->seconds = (double)(s->end_ns - s->start_ns) / NS_PER_S;
	to->packets = atomic_load(&s->packets);
	to->lost = atomic_load(&s->lost);
	to->jitter_s = atomic_load(&s->jitter_s);
	to->omitted_packets = s->packets_before;
	to->omitted_lost = s->lost_before;
	to->datagrams = datagrams;
}

char *iperf3_results(struct conn *c, size_t *ret_bytes)
{
	struct iperf3_conn *i = c->state;
	const struct iperf3_test *t = i->member.test;
	struct iperf3_stream_result *streams = calloc(t->stream_count, sizeof(*streams));
	char *text;
	struct iperf3_results r = { .streams = streams, .count = t->stream_count };

	if (!streams)
		return NULL;
	for (unsigned k = 0; k < t->stream_count; k++)
		fill_stream(i->sorted[k], t->params.datagrams, &streams[k]);
	add_cpu(i, &r);
	r.congestion = t->congestion[0] ? t->congestion : NULL;
	text = iperf3_build_results(&r, ret_bytes);
	free(streams);
	return text;
}

/* Time limit of a test's end and of each later step: as in iperf3's server, long enough to drain
 * all queues on the path. */
#define END_NS (40 * (uint64_t)NS_PER_S)
/* Time without progress after which a test without -t is ended. */
#define STUCK_NS (60 * (uint64_t)NS_PER_S)
/* Interval of checks while a test runs; they also keep control from being idle. */
#define TICK_NS (500 * (uint64_t)NS_PER_MS)
/* Bytes in transit after the end of the test: interval of checks, and time limit. */
#define ARRIVE_TICK_NS (2 * (uint64_t)NS_PER_MS)
#define ARRIVE_NS      (1 * (uint64_t)NS_PER_S)
/* UDP: tests of one client address begin one after the other.  First and last interval of the
 * checks, and time limit.  The interval grows, as many waiting tests would keep the worker busy. */
#define PLACE_TICK_NS     (5 * (uint64_t)NS_PER_MS)
#define PLACE_TICK_MAX_NS (200 * (uint64_t)NS_PER_MS)
#define PLACE_NS          (60 * (uint64_t)NS_PER_S)

enum { PIECE = 4096 }; /* bytes written at a time */

/* ---- Bytes of the control connection ---- */

static void control_fail(struct conn *c, enum conn_end end)
{
	struct iperf3_conn *i = c->state;

	if (i->member.test)
		atomic_store(&i->member.test->end, end);
	stat_add(c->worker->stats.operations[IPERF3_OP_TEST].errors, 1);
	conn_close(c, end);
}

static bool control_write_state(struct conn *c, uint8_t state)
{
	return conn_try_write(c, &state, 1);
}

static void iperf3_control_refuse(struct conn *c, int error)
{
	struct iperf3_conn *i = c->state;

	i->refusal = error;
	i->step = STEP_REFUSE;
}

static void control_go(struct conn *c, enum iperf3_step step)
{
	struct iperf3_conn *i = c->state;

	i->step = (uint8_t)step;
	conn_set_deadline(
		c, clock_ns() + (step > STEP_RUN && step < STEP_REFUSE ? END_NS : IPERF3_STEP_NS));
}

/* Receives JSON with its length prefix into i->text.  1: complete; 0:
 * incomplete; -EPROTO, -ENOMEM. */
static int control_read_text(struct conn *c, int max)
{
	struct iperf3_conn *i = c->state;
	struct pool *p = &c->worker->pool;
	uint8_t length[IPERF3_LENGTH];
	uint32_t n;

	if (!i->text) {
		int rc;

		if (c->rx.bytes < IPERF3_LENGTH)
			return 0;
		bufq_read(p, &c->rx, length, sizeof(length));
		rc = iperf3_parse_length(length, max);
		if (rc < 0)
			return rc;
		i->text_max = (uint32_t)rc;
		i->text_bytes = 0;
		i->text = malloc(i->text_max);
		if (!i->text)
			return -ENOMEM;
	}
	n = (uint32_t)MIN(c->rx.bytes, (size_t)(i->text_max - i->text_bytes));
	bufq_read(p, &c->rx, i->text + i->text_bytes, n);
	i->text_bytes += n;
	return i->text_bytes == i->text_max;
}

static void control_drop_text(struct iperf3_conn *i)
{
	free(i->text);
	i->text = NULL;
}

/* Reads a state byte of the client.  False: none has arrived. */
static bool control_read_state(struct conn *c, uint8_t *ret_state)
{
	if (!c->rx.bytes)
		return false;
	bufq_read(&c->worker->pool, &c->rx, ret_state, 1);
	return true;
}

/* Ends the test after a state that is not allowed in this step. */
static void control_reject_state(struct conn *c, uint8_t state)
{
	control_fail(c, state == IPERF3_CLIENT_TERMINATE ? CONN_END_PEER : CONN_END_PROTOCOL);
}

/* ---- Steps: each returns whether the next one is to be done at once ---- */

/* Begins a test: asks the client for its parameters. */
static void iperf3_control_enter(struct conn *c)
{
	c->flags |= CONN_LASTING; /* each step has its own time limit */
	control_go(c, STEP_PARAMS);
	if (!control_write_state(c, IPERF3_PARAM_EXCHANGE))
		conn_close(c, CONN_END_ERROR); /* the pool is exhausted: no test can run */
}

/* 1: the parameters are complete; 0: incomplete; negative: -enum iperf3_error. */
static int control_read_params(struct conn *c)
{
	struct iperf3_conn *i = c->state;
	struct iperf3_params params = { 0 };
	char options[CONN_TEST_MAX];
	unsigned count;
	int rc = control_read_text(c, IPERF3_PARAMS_MAX);

	if (rc == 0)
		return 0;
	if (rc > 0)
		rc = iperf3_parse_params(i->text, i->text_bytes, &params);
	else
		rc = IPERF3_BAD_PARAMS;
	control_drop_text(i);
	if (rc != 0)
		return -rc;
	if (iperf3_expect(i->member.test, &params) < 0)
		return -IPERF3_NO_TEST;
	count = i->member.test->stream_count;
	i->expected = calloc(count, sizeof(*i->expected));
	i->sorted = calloc(count, sizeof(struct iperf3_stream *));
	if (!i->expected || !i->sorted)
		return -IPERF3_NO_TEST;
	iperf3_write_options(&params, options, sizeof(options));
	conn_log(c, LOG_INFO, "%s test: %s", c->worker->service->name, options);
	return 1;
}

static bool step_params(struct conn *c)
{
	struct iperf3_conn *i = c->state;
	int rc = i->sorted ? 1 : control_read_params(c);

	if (rc < 0) {
		iperf3_control_refuse(c, -rc);
		return true;
	}
	if (rc == 0)
		return false;
	i->step = STEP_ADDRESS;
	i->progress_ns = clock_ns();
	return true;
}

static bool step_address(struct conn *c)
{
	struct iperf3_conn *i = c->state;
	int rc = i->member.test->params.datagrams ? iperf3_reserve_address(c) : 0;

	if (rc == -EAGAIN && clock_ns() < i->progress_ns + PLACE_NS) {
		uint64_t now = clock_ns(), wait_ns = (now - i->progress_ns) / 8;

		conn_set_deadline(c, now + MIN(MAX(wait_ns, PLACE_TICK_NS), PLACE_TICK_MAX_NS));
		return false;
	}
	if (rc) {
		iperf3_control_refuse(c, rc < 0 ? IPERF3_ACCESS_DENIED : rc);
		return true;
	}
	if (!control_write_state(c, IPERF3_CREATE_STREAMS))
		return false;
	control_go(c, STEP_STREAMS);
	return true;
}

static void control_start(struct conn *c, enum iperf3_phase phase)
{
	struct iperf3_conn *i = c->state;

	i->start_ns = i->progress_ns = clock_ns();
	i->cpu_start = iperf3_cpu_now();
	iperf3_set_phase(i->member.test, phase);
}

static bool step_streams(struct conn *c)
{
	static const uint8_t states[] = { IPERF3_TEST_START, IPERF3_TEST_RUNNING };
	struct iperf3_conn *i = c->state;
	struct iperf3_test *t = i->member.test;
	uint8_t state;
	/* Read in this order: a stream that failed stores its error before it counts as arrived. */
	unsigned arrived = atomic_load(&t->arrived);
	bool complete = arrived == t->stream_count;
	int error = atomic_load(&t->error);

	if (error) {
		iperf3_control_refuse(c, error);
		return true;
	}
	if (control_read_state(c, &state)) {
		control_reject_state(c, state);
		return false;
	}
	/* The time limit restarts with each stream: a client opens them one after the other, each
	 * in a round trip. */
	if (!complete && conn_deadline_passed(c) && arrived > i->arrived) {
		i->arrived = arrived;
		control_go(c, STEP_STREAMS);
	}
	if (!complete || !conn_try_write(c, states, sizeof(states)))
		return false;
	control_start(c, t->params.omit_s ? IPERF3_OMIT : IPERF3_RUN);
	i->step = STEP_RUN;
	return true;
}

/* Must the server end the test, because it is overdue or makes no progress? */
static bool control_is_late(struct conn *c, uint64_t now)
{
	struct iperf3_conn *i = c->state;
	const struct iperf3_test *t = i->member.test;
	const struct iperf3_params *p = &t->params;
	uint64_t bytes, stuck_ns = STUCK_NS;

	if (p->time_s)
		return now > i->start_ns + p->time_s * (uint64_t)NS_PER_S + END_NS;
	if (p->rate) /* at a low rate a single block may take long */
		stuck_ns += (uint64_t)((double)p->len * p->burst * 8 * NS_PER_S / (double)p->rate);
	bytes = iperf3_bytes(t);
	if (bytes != i->progress_bytes)
		i->progress_ns = now;
	i->progress_bytes = bytes;
	return now > i->progress_ns + stuck_ns;
}

static void control_tick(struct conn *c)
{
	struct iperf3_conn *i = c->state;
	struct iperf3_test *t = i->member.test;
	uint64_t now = clock_ns(), omit_ns = t->params.omit_s * (uint64_t)NS_PER_S;
	uint64_t next_ns = now + TICK_NS;

	if (iperf3_phase(t) == IPERF3_OMIT) {
		if (now >= i->start_ns + omit_ns)
			control_start(c, IPERF3_RUN);
		else
			next_ns = MIN(next_ns, i->start_ns + omit_ns);
	} else if (control_is_late(c, now)) {
		control_fail(c, CONN_END_IDLE);
		return;
	}
	conn_set_deadline(c, next_ns);
}

static bool step_run(struct conn *c)
{
	struct iperf3_conn *i = c->state;
	uint8_t state;

	if (!control_read_state(c, &state)) {
		control_tick(c);
		return false;
	}
	if (state == IPERF3_TEST_START) /* clients may repeat it */
		return true;
	if (state != IPERF3_TEST_END) {
		control_reject_state(c, state);
		return false;
	}
	i->end_ns = clock_ns();
	i->cpu_end = iperf3_cpu_now();
	iperf3_set_phase(i->member.test, IPERF3_END);
	control_go(c, STEP_FINISH);
	return true;
}

static bool step_finish(struct conn *c)
{
	struct iperf3_conn *i = c->state;

	if (!iperf3_is_finished(i->member.test) || !control_write_state(c, IPERF3_EXCHANGE_RESULTS))
		return false;
	iperf3_sort_streams(i->member.test, i->sorted);
	control_go(c, STEP_RESULTS);
	return true;
}

static bool step_results(struct conn *c)
{
	struct iperf3_conn *i = c->state;
	int rc = control_read_text(c, IPERF3_RESULTS_MAX);

	if (rc == 0)
		return false;
	if (rc > 0)
		rc = iperf3_parse_results(i->text, i->text_bytes, i->expected,
					  i->member.test->stream_count);
	control_drop_text(i);
	if (rc < 0) {
		control_fail(c, rc == -ENOMEM ? CONN_END_ERROR : CONN_END_PROTOCOL);
		return false;
	}
	i->step = STEP_ARRIVE;
	i->progress_ns = clock_ns();
	return true;
}

/* Waits for bytes in transit, which a short test may consist of. iperf3's own server does not count
 * these; here the result includes their time, too. */
static bool step_arrive(struct conn *c)
{
	struct iperf3_conn *i = c->state;
	bool datagrams = i->member.test->params.datagrams;
	uint64_t now = clock_ns();

	if (!(datagrams ? iperf3_datagrams_arrived(i, now) : iperf3_all_arrived(i)) &&
	    now < i->end_ns + ARRIVE_NS) {
		i->waited = true;
		conn_set_deadline(c, now + ARRIVE_TICK_NS);
		return false;
	}
	for (unsigned k = 0; i->waited && !datagrams && k < i->member.test->stream_count; k++)
		if (atomic_load(&i->sorted[k]->role) == IPERF3_RECEIVES && i->sorted[k]->start_ns)
			i->sorted[k]->end_ns = now;
	if (!datagrams)
		iperf3_match_streams(i);
	control_go(c, STEP_REPLY);
	return true;
}

/* ---- The end ---- */

static bool step_reply(struct conn *c)
{
	struct iperf3_conn *i = c->state;

	if (!i->text) {
		size_t bytes = 0;

		i->text = iperf3_results(c, &bytes);
		i->text_max = (uint32_t)bytes;
		i->text_bytes = 0;
		if (!i->text) {
			control_fail(c, CONN_END_ERROR);
			return false;
		}
	}
	while (i->text_bytes < i->text_max) {
		uint32_t n = MIN(i->text_max - i->text_bytes, (uint32_t)PIECE);

		if (!conn_try_write(c, i->text + i->text_bytes, n))
			return false;
		i->text_bytes += n;
	}
	if (!control_write_state(c, IPERF3_DISPLAY_RESULTS))
		return false;
	control_drop_text(i);
	stat_add(c->worker->stats.operations[IPERF3_OP_TEST].count, 1);
	control_go(c, STEP_DONE);
	return true;
}

static bool step_done(struct conn *c)
{
	if (c->rx.bytes)
		conn_close(c, CONN_END_PEER); /* usually IPERF3_DONE; the test is over anyway */
	return false;
}

/* ---- Refusals ---- */

static bool step_refuse(struct conn *c)
{
	struct iperf3_conn *i = c->state;
	uint8_t error[IPERF3_ERROR];

	if (i->refusal == IPERF3_ACCESS_DENIED) {
		if (!control_write_state(c, IPERF3_ACCESS_DENIED))
			return false;
	} else {
		iperf3_build_error(i->refusal, error);
		if (!conn_try_write(c, error, sizeof(error)))
			return false;
	}
	stat_add(c->worker->stats.operations[IPERF3_OP_TEST].errors, 1);
	control_go(c, STEP_CLOSE);
	return true;
}

/* Waits until the client, having read the error, closes.  Closing a socket with unread input would
 * reset the connection, and the error could be lost. */
static bool step_close(struct conn *c)
{
	bufq_drop(&c->worker->pool, &c->rx, c->rx.bytes);
	return false;
}

static bool (*const steps[])(struct conn *c) = {
	[STEP_PARAMS] = step_params, [STEP_ADDRESS] = step_address, [STEP_STREAMS] = step_streams,
	[STEP_RUN] = step_run,       [STEP_FINISH] = step_finish,   [STEP_RESULTS] = step_results,
	[STEP_ARRIVE] = step_arrive, [STEP_REPLY] = step_reply,     [STEP_DONE] = step_done,
	[STEP_REFUSE] = step_refuse, [STEP_CLOSE] = step_close,
};

/* Must the test end because the listener drains?  One that has not begun must, as its streams could
 * not connect, unless a replacing listener accepts them.  A running one may continue until shortly
 * before the end of the drain. */
static bool control_must_end(const struct conn *c, const struct iperf3_conn *i)
{
	const struct worker *w = c->worker;

	if (likely(!w->drain.on) || i->step >= STEP_FINISH)
		return false;
	return (i->step < STEP_RUN && !sessions_are_kept(w->shared)) ||
	       clock_ns() + 2 * TICK_NS >= w->drain.deadline_ns;
}

static void control_check(struct conn *c)
{
	struct iperf3_conn *i = c->state;

	if (c->flags & CONN_CLOSING)
		return;
	if ((c->flags & CONN_EOF) && (i->step != STEP_CLOSE || c->tx.bytes == 0)) {
		if (i->step == STEP_DONE || i->step == STEP_CLOSE)
			conn_close(c, CONN_END_PEER);
		else
			control_fail(c, CONN_END_PEER);
	} else if (i->step != STEP_RUN && i->step != STEP_ARRIVE && i->step != STEP_ADDRESS &&
		   conn_deadline_passed(c)) {
		if (i->step == STEP_CLOSE)
			conn_close(c, CONN_END_IDLE);
		else
			control_fail(c, CONN_END_IDLE);
	} else if (control_must_end(c, i) && control_write_state(c, IPERF3_SERVER_TERMINATE)) {
		atomic_store(&i->member.test->end, CONN_END_DRAIN);
		stat_add(c->worker->stats.operations[IPERF3_OP_TEST].errors, 1);
		control_go(c, STEP_CLOSE);
	}
}

/* Runs the steps of a test that are possible now. */
static void iperf3_control_run(struct conn *c)
{
	struct iperf3_conn *i = c->state;

	while (!(c->flags & CONN_CLOSING) && steps[i->step](c))
		;
	control_check(c);
}

/* Decides by the cookie whether a connection controls a new test or is a stream of one. */
static void cookie_read(struct conn *c)
{
	struct iperf3_conn *i = c->state;
	uint8_t cookie[IPERF3_COOKIE];
	int rc;

	bufq_read(&c->worker->pool, &c->rx, cookie, sizeof(cookie));
	if (!iperf3_is_cookie(cookie)) {
		conn_close(c, CONN_END_PROTOCOL);
		return;
	}
	rc = iperf3_enter(&i->member, cookie);
	if (rc == -ENOMEM) {
		iperf3_control_refuse(c, IPERF3_NO_TEST);
	} else if (rc < 0) {
		iperf3_control_refuse(c, IPERF3_ACCESS_DENIED);
	} else if (i->member.stream) {
		i->step = STEP_STREAM;
		conn_set_deadline(c, 0);
		iperf3_stream_enter(c);
	} else {
		iperf3_control_enter(c);
	}
}

static void cookie_run(struct conn *c)
{
	if (c->rx.bytes >= IPERF3_COOKIE)
		cookie_read(c);
	else if (c->flags & CONN_EOF)
		conn_close(c, CONN_END_PEER);
	else if (conn_deadline_passed(c))
		conn_close(c, CONN_END_IDLE);
}

static void iperf3_run(struct conn *c)
{
	struct iperf3_conn *i = c->state;

	if (c->worker->engine->messages) {
		iperf3_datagrams_run(c);
		return;
	}
	if (unlikely(i->step == STEP_COOKIE))
		cookie_run(c);
	if (likely(i->step == STEP_STREAM))
		iperf3_stream_run(c);
	else if (i->step != STEP_COOKIE)
		iperf3_control_run(c);
}

static int iperf3_open(struct conn *c)
{
	struct iperf3_conn *i = calloc(1, sizeof(*i));

	if (!i)
		return -ENOMEM;
	session_member_init(&i->member.of, c);
	c->state = i;
	if (!c->worker->engine->messages)
		conn_set_deadline(c, clock_ns() + IPERF3_STEP_NS);
	return 0;
}

static void iperf3_close(struct conn *c)
{
	struct iperf3_conn *i = c->state;
	struct session_twin twin = i->twin;

	if (i->step == STEP_STREAM && c->worker->engine->messages)
		iperf3_datagrams_leave(c);
	else if (i->step == STEP_STREAM)
		iperf3_stream_leave(c);
	free(i->text);
	free(i->expected);
	free(i->sorted);
	iperf3_leave(&i->member);
	session_twin_put(&twin);
}

const struct service service_iperf3 = {
	.keys = &bulk_key_table,
	.name = "iperf3",
	.example = "iperf3 -c {host} -p {port}",
	.example_udp = "iperf3 -u -c {host} -p {port} -b 1G",
	.operations = { "test", "receive", "send" },
	.batches = 1U << IPERF3_OP_RECEIVE | 1U << IPERF3_OP_SEND,
	.flags = SERVICE_SENDS_FIRST | SERVICE_UDP,
	.shared_new = sessions_new,
	.shared_keep = sessions_keep,
	.shared_free = sessions_free,
	.listens = sessions_listen,
	.open = iperf3_open,
	.run = iperf3_run,
	.close = iperf3_close,
};
