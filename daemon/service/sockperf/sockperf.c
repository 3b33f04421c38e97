/* Service sockperf: sockperf's server on TCP and UDP. It returns messages that request a pong, and
 * drops all others.  No payload is copied: the client flag is cleared in the received header. Bytes
 * are passed on as they arrive, before their message is complete, and adjacent messages of the same
 * fate are moved together.  A message counts when its last byte has arrived. */
#include <string.h>

#include "conn.h"
#include "conn_op.h"
#include "proto.h"

enum { OPERATION_PONG, OPERATION_COUNT, OPERATIONS };

struct sockperf_conn {
	uint32_t left;           /* bytes of the current message that have not arrived */
	enum sockperf_fate fate; /* fate of that message */
};

/* The parser's position in rx. */
struct sockperf_cursor {
	struct view *view;
	uint32_t offset; /* in view */
	size_t run;      /* bytes from the start of rx to here, all of one fate */
};

static void cursor_advance(struct sockperf_cursor *at, size_t bytes)
{
	at->run += bytes;
	while (at->view && bytes >= at->view->len - at->offset) {
		bytes -= at->view->len - at->offset;
		at->view = at->view->next;
		at->offset = 0;
	}
	at->offset += (uint32_t)bytes;
}

/* Copies the header at `at`, all of which is in rx; returns the address of its flags byte. */
static uint8_t *cursor_header(struct sockperf_cursor at, uint8_t header[static SOCKPERF_HEADER])
{
	uint8_t *flags = NULL;

	for (uint32_t i = 0; i < SOCKPERF_HEADER;) {
		uint32_t n = MIN(at.view->len - at.offset, SOCKPERF_HEADER - i);

		memcpy(header + i, at.view->data + at.offset, n);
		if (i <= SOCKPERF_FLAGS_LOW && SOCKPERF_FLAGS_LOW < i + n)
			flags = at.view->data + at.offset + (SOCKPERF_FLAGS_LOW - i);
		i += n;
		cursor_advance(&at, n);
	}
	return flags;
}

/* Removes the parsed bytes from rx: pongs move to tx, all others are freed. */
static void sockperf_move(struct conn *c, struct sockperf_cursor *at, enum sockperf_fate fate)
{
	struct pool *p = &c->worker->pool;

	if (fate == SOCKPERF_PONG)
		bufq_take(p, &c->tx, &c->rx, at->run);
	else
		bufq_drop(p, &c->rx, at->run);
	*at = (struct sockperf_cursor){ .view = c->rx.head };
}

/* Parses the header at `at`, which begins a message.  0 or -EPROTO. */
static int sockperf_begin(struct conn *c, struct sockperf_cursor *at)
{
	struct sockperf_conn *s = c->state;
	uint8_t header[SOCKPERF_HEADER];
	uint8_t *flags = cursor_header(*at, header);
	enum sockperf_fate before = s->fate;
	int fate = sockperf_parse(header, &s->left);

	if (fate < 0)
		return fate;
	s->fate = (enum sockperf_fate)fate;
	if (s->fate == SOCKPERF_PONG)
		*flags &= (uint8_t)~SOCKPERF_CLIENT;
	if (s->fate != before)
		sockperf_move(c, at, before);
	return 0;
}

/* Counts messages.  Only pongs have a latency. */
static void sockperf_count(struct conn *c, const uint64_t done[static OPERATIONS])
{
	stat_add(c->worker->stats.operations[OPERATION_COUNT].count, done[OPERATION_COUNT]);
	if (done[OPERATION_PONG])
		conn_op_begin_some(c, OPERATION_PONG, done[OPERATION_PONG]);
}

static void sockperf_run_stream(struct conn *c)
{
	struct sockperf_conn *s = c->state;
	struct sockperf_cursor at = { .view = c->rx.head };
	uint64_t done[OPERATIONS] = { 0 };
	size_t ahead;
	int rc = 0;

	while ((ahead = c->rx.bytes - at.run) > 0) {
		uint32_t n;

		if (s->left == 0 && ahead < SOCKPERF_HEADER)
			break;
		if (s->left == 0 && (rc = sockperf_begin(c, &at)) < 0)
			break;
		n = (uint32_t)MIN(c->rx.bytes - at.run, s->left);
		cursor_advance(&at, n);
		s->left -= n;
		if (s->left == 0 && s->fate != SOCKPERF_IGNORE)
			done[s->fate == SOCKPERF_PONG ? OPERATION_PONG : OPERATION_COUNT]++;
	}
	sockperf_move(c, &at, s->fate);
	sockperf_count(c, done);
	if (rc < 0)
		conn_close(c, CONN_END_PROTOCOL);
}

/* Each datagram is one message; one whose length field is wrong is not answered. */
static void sockperf_run_datagrams(struct conn *c)
{
	struct worker *w = c->worker;
	uint64_t done[OPERATIONS] = { 0 };

	while (c->rx.head) {
		const struct view *v = c->rx.head;
		int fate = sockperf_parse_datagram(v->data, v->len);

		if (fate < 0) {
			stat_add(w->stats.operations[OPERATION_COUNT].errors, 1);
			fate = SOCKPERF_IGNORE;
		} else if (fate != SOCKPERF_IGNORE) {
			done[fate == SOCKPERF_PONG ? OPERATION_PONG : OPERATION_COUNT]++;
		}
		if (fate == SOCKPERF_PONG) {
			v->data[SOCKPERF_FLAGS_LOW] &= (uint8_t)~SOCKPERF_CLIENT;
			bufq_move_view(&c->tx, &c->rx);
		} else {
			bufq_drop_views(&w->pool, &c->rx, 1);
		}
	}
	sockperf_count(c, done);
}

static void sockperf_run(struct conn *c)
{
	if (c->worker->engine->messages)
		sockperf_run_datagrams(c);
	else
		sockperf_run_stream(c);
}

const struct service service_sockperf = {
	.name = "sockperf",
	.example = "sockperf ping-pong --tcp -i {host} -p {port}",
	.example_udp = "sockperf ping-pong -i {host} -p {port}",
	.operations = { "pong", "count" },
	.state_bytes = sizeof(struct sockperf_conn),
	.run = sockperf_run,
	.flags = SERVICE_UDP,
};
