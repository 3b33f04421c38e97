/* discard (RFC 863): read and drop.  One operation is one batch of received bytes
 * dropped, or one message.
 *
 * Over UDP only the last datagram of iperf 2 is answered, with a report of what has arrived. */
#include <errno.h>
#include <stdlib.h>

#include "bulk.h"
#include "conn.h"
#include "conn_op.h"
#include "iperf2_proto.h"

static void discard_datagrams(struct conn *c)
{
	uint8_t report[IPERF2_REPORT];
	struct iperf2_peer *p = c->state;
	uint64_t now = p->state == IPERF2_OTHER ? 0 : clock_ns();

	for (const struct view *v = c->rx.head; v && p->state != IPERF2_OTHER; v = v->next)
		if (iperf2_take(p, v->data, v->len, now, report))
			conn_write(c, report, sizeof(report)); /* if there is no memory: iperf
								  repeats its last datagram */
}

static void discard_run(struct conn *c)
{
	if (!c->rx.head)
		return;
	conn_op_begin_all(c, 0);
	if (c->state)
		discard_datagrams(c);
	bulk_take(c);
	conn_op_end(c);
}

static int discard_open(struct conn *c)
{
	if (!c->worker->engine->connectionless)
		return 0;
	c->state = calloc(1, sizeof(struct iperf2_peer));
	return c->state ? 0 : -ENOMEM;
}

static void discard_close(struct conn *c)
{
	free(c->state);
}

const struct service service_discard = {
	.name = "discard",
	.keys = &bulk_key_table,
	.example = "iperf -c {host} -p {port} -t 5",
	.example_tls =
		"head -c 1G /dev/zero | openssl s_client -quiet -no_ign_eof -connect {host}:{port}",
	.example_udp = "iperf -u -c {host} -p {port} -t 5",
	.example_rdma = "rdma_xclient -s {host} -p {port}",
	.operations = { "discard" },
	.batches = 1U << 0,
	.open = discard_open,
	.run = discard_run,
	.close = discard_close,
	.flags = SERVICE_MESSAGES | SERVICE_ONE_WAY | SERVICE_LOSSY | SERVICE_UDP | SERVICE_TLS,
};
