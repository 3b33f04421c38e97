/* echo (RFC 862): sends what it has received; no byte is copied.  One operation is one batch of
 * received bytes answered, or one message. */
#include "conn.h"
#include "conn_op.h"

static void echo_run(struct conn *c)
{
	if (!c->rx.head)
		return;
	conn_op_begin_all(c, 0);
	bufq_splice(&c->tx, &c->rx);
}

const struct service service_echo = {
	.name = "echo",
	.example = "redis-benchmark -h {host} -p {port} -t set -q",
	.example_tls = "redis-benchmark --tls --insecure -h {host} -p {port} -t set -q",
	.example_udp = "echo hello | socat -t 1 - UDP:{host}:{port}",
	.example_rdma = "rdma_client -s {host} -p {port}",
	.operations = { "echo" },
	.batches = 1U << 0,
	.run = echo_run,
	.flags = SERVICE_ANSWERS | SERVICE_MESSAGES | SERVICE_UDP | SERVICE_TLS,
};
