/* The transports.  See transport.h. */
#include "transport.h"

#include <stddef.h>
#include <sys/socket.h>

#include "service.h"

const struct transport transport_tcp = {
	.name = "tcp",
	.socket_type = SOCK_STREAM,
	.unix_addresses = true,
};
const struct transport transport_rdma = {
	.name = "rdma",
	.messages = true,
	.remote = true,
	.verbs = true,
};
const struct transport transport_udp = {
	.name = "udp",
	.socket_type = SOCK_DGRAM,
	.messages = true,
	.datagrams = true,
};
const struct transport *const transports[] = { &transport_tcp, &transport_udp, &transport_rdma,
					       NULL };

bool transport_can_serve(const struct transport *t, const struct service *service)
{
	if (t->datagrams)
		return service->udp;
	return (service->messages || !t->messages) && (t->remote || !service->remote);
}
