/* A transport: what carries bytes.  The main thread asks for its properties, never for its name.
 *
 * To add one: its `extern` here, its entry in transport.c, and an engine that names it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct service;

struct transport {
	const char *name; /* as in `transport = NAME` */

	/* The type of the sockets that a listener binds, hands over on a reload and keeps across a
	 * restart: SOCK_STREAM or SOCK_DGRAM.  0: no sockets; the engine of the listener's first
	 * worker binds w->accept.endpoints. */
	int socket_type;

	bool unix_addresses; /* `address = unix:PATH` is valid */
	bool messages;       /* its engines have `messages` */
	bool datagrams;      /* has no connections: its engines are connectionless */
	/* Bits of enum service_flag: the flags that a service must have, and
	 * those that it must not have. */
	uint32_t needs, refuses;
	bool verbs; /* uses RDMA queue pairs: it has devices and work requests */
};

extern const struct transport transport_tcp, transport_rdma, transport_udp;

/* NULL-terminated, in the order in which the documentation lists them. */
extern const struct transport *const transports[];

/* Has the service all flags that the transport needs, and none that it refuses? */
bool transport_can_serve(const struct transport *t, const struct service *service);
