/* discard (RFC 863): read and drop.  One operation is one batch of received bytes dropped. */
#include "conn.h"

static void discard_run(struct conn *c)
{
	if (!c->rx.bytes)
		return;
	conn_op_begin(c, 0);
	bufq_drop(&c->worker->pool, &c->rx, c->rx.bytes);
	conn_op_end(c);
}

const struct service service_discard = {
	.name = "discard",
	.example = "iperf -c {host} -p {port} -t 5",
	.operations = { "discard" },
	.run = discard_run,
	.messages = true,
	.one_way = true,
	.datagrams = true,
};
