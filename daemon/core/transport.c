/* The transports.  See transport.h. */
#include "transport.h"

#include <stddef.h>
#include <sys/socket.h>

#include "service.h"

const struct transport transport_tcp = {
	.name = "tcp",
	.socket_type = SOCK_STREAM,
	.refuses = SERVICE_REMOTE,
	.unix_addresses = true,
};
const struct transport transport_rdma = {
	.name = "rdma",
	.needs = SERVICE_MESSAGES,
	.messages = true,
	.verbs = true,
};
const struct transport transport_udp = {
	.name = "udp",
	.socket_type = SOCK_DGRAM,
	.needs = SERVICE_UDP,
	.messages = true,
	.datagrams = true,
};
const struct transport *const transports[] = { &transport_tcp, &transport_udp, &transport_rdma,
					       NULL };

bool transport_can_serve(const struct transport *t, const struct service *service)
{
	return (service->flags & t->needs) == t->needs && !(service->flags & t->refuses);
}
