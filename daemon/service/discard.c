/* discard (RFC 863): read and drop.  One operation is one batch of received bytes dropped, or
 * one message. */
#include "conn.h"

static void discard_run(struct conn *c)
{
	if (!c->rx.head)
		return;
	conn_op_begin_all(c, 0);
	bufq_clear(&c->worker->pool, &c->rx);
	conn_op_end(c);
}

const struct service service_discard = {
	.name = "discard",
	.example = "iperf -c {host} -p {port} -t 5",
	.operations = { "discard" },
	.batches = 1U << 0,
	.run = discard_run,
	.messages = true,
	.one_way = true,
	.datagrams = true,
	.udp = true,
};
