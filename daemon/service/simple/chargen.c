/* chargen (RFC 864): sends lines of the rotating pattern as fast as the peer takes them, ignores
 * what it receives.  One operation is one batch queued; its latency is the time until the peer has
 * taken it.  A FIN does not end the connection (as with inetd's chargen: the client may have closed
 * only its own direction); a failed send or a drain does. */
#include "conn.h"
#include "conn_op.h"

enum {
	CHARGEN_CHARS = 95, /* ' ' to '~' */
	CHARGEN_LINE = 72,
	CHARGEN_PERIOD = CHARGEN_CHARS * (CHARGEN_LINE + 2), /* bytes until the text repeats */
	CHARGEN_DATAGRAM = 512,                              /* RFC 864 */
	CHARGEN_QUEUE = 256 * 1024,                          /* bytes kept ahead of the peer */
};

static void chargen_fill(uint8_t *bytes, uint32_t size)
{
	for (uint32_t i = 0; i < size; i++) {
		uint32_t line = i / (CHARGEN_LINE + 2), column = i % (CHARGEN_LINE + 2);

		if (column < CHARGEN_LINE)
			bytes[i] = (uint8_t)(' ' + (line + column) % CHARGEN_CHARS);
		else
			bytes[i] = column == CHARGEN_LINE ? '\r' : '\n';
	}
}

/* Bytes of the chunk that one view sends: whole periods, so that the text continues seamlessly;
 * whole lines if the chunk is shorter than a period. */
static uint32_t chargen_bytes(const struct worker *w)
{
	uint32_t lines = w->pool.chunk_size / (CHARGEN_LINE + 2);

	if (lines >= CHARGEN_CHARS)
		lines -= lines % CHARGEN_CHARS;
	return lines * (CHARGEN_LINE + 2);
}

/* RFC 864 over UDP: one datagram for each received.  Not of random length but the maximum: 512
 * bytes, or to an unverified address as many as it has sent. */
static void chargen_answer(struct conn *c, struct chunk *k)
{
	struct pool *p = &c->worker->pool;

	if (!c->rx.head)
		return;
	conn_op_begin_all(c, 0);
	for (; c->rx.head; bufq_drop_views(p, &c->rx, 1)) {
		uint32_t bytes = CHARGEN_DATAGRAM;

		if (!(c->flags & CONN_TRUSTED))
			bytes = MIN(bytes, c->rx.head->len);
		bufq_push(&c->tx, view_new(p, k, k->base, bytes));
	}
}

static void chargen_run(struct conn *c)
{
	struct worker *w = c->worker;
	uint32_t bytes = chargen_bytes(w);
	struct chunk *k = conn_constant(c, chargen_fill);

	if (w->engine->messages && k) {
		chargen_answer(c, k);
		return;
	}
	bufq_drop(&w->pool, &c->rx, c->rx.bytes);
	if (!k || w->drain.on || conn_queued_bytes(c) >= CHARGEN_QUEUE / 2)
		return;
	conn_op_begin(c, 0);
	while (conn_queued_bytes(c) < CHARGEN_QUEUE)
		bufq_push(&c->tx, view_new(&w->pool, k, k->base, bytes));
}

const struct service service_chargen = {
	.name = "chargen",
	.example =
		"fio --name=in --ioengine=net --protocol=tcp --hostname={host} --port={port} --rw=read --bs=64k --size=1g",
	.example_tls =
		"openssl s_client -quiet -connect {host}:{port} </dev/null | head -c 1G >/dev/null",
	.example_udp = "echo hello | socat -t 1 - UDP:{host}:{port}",
	.operations = { "chargen" },
	.batches = 1U << 0,
	.run = chargen_run,
	.flags = SERVICE_SENDS_FIRST | SERVICE_ANSWERS | SERVICE_UDP | SERVICE_TLS,
};
