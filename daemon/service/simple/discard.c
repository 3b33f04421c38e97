/* discard (RFC 863): read and drop.  One operation is one batch of received bytes
 * dropped, or one message. */
#include "bulk.h"
#include "conn.h"
#include "conn_op.h"

static void discard_run(struct conn *c)
{
	if (!c->rx.head)
		return;
	conn_op_begin_all(c, 0);
	bulk_take(c);
	conn_op_end(c);
}

const struct service service_discard = {
	.name = "discard",
	.keys = &bulk_key_table,
	.example = "iperf -c {host} -p {port} -t 5",
	.example_tls =
		"head -c 1G /dev/zero | openssl s_client -quiet -no_ign_eof -connect {host}:{port}",
	.example_udp = "head -c 100M /dev/zero | socat -b 1400 -u - UDP:{host}:{port}",
	.example_rdma = "rdma_xclient -s {host} -p {port}",
	.operations = { "discard" },
	.batches = 1U << 0,
	.run = discard_run,
	.flags = SERVICE_MESSAGES | SERVICE_ONE_WAY | SERVICE_UDP | SERVICE_TLS,
};
