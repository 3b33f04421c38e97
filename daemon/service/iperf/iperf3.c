/* iperf3: the server side of iperf3's TCP and UDP tests, for any number of clients at once.
 *
 * The first connection with a cookie controls a test (iperf/control.c), the next ones are its
 * streams (iperf/stream.c).  State shared by them over all workers is in iperf/test.c.  UDP
 * streams come to a listener of their own (iperf/udp.c). */
#include <errno.h>
#include <stdlib.h>

#include "bulk.h"
#include "conn.h"
#include "iperf3.h"
#include "test_log.h"

/* Decides by the cookie what a connection is: a test's control, or one of its streams. */
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
	test_log_end(c, &i->record); /* it was broken off */
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
