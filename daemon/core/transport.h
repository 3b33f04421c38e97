/* A transport: what carries bytes.  The main thread asks for its properties, never for its name.
 *
 * To add one: its `extern` here, its entry in transport.c, and engines that name it. */
#pragma once
#include <stdbool.h>

struct service;

struct transport {
	const char *name; /* as in `transport = NAME` */

	/* The type of the sockets that a listener binds, that pass from one listener to the next on
	 * a reload and are kept over a restart: SOCK_STREAM or SOCK_DGRAM.  0: there are none, the
	 * engine of its first worker binds w->endpoints. */
	int socket_type;

	bool unix_addresses; /* `address = unix:PATH` is valid */
	bool messages;       /* its engines have `messages`: services must, too */
	bool datagrams; /* that nobody connects for: `udp` of services, `datagrams` of engines */
	bool remote;    /* its engines can reach a client's memory: see remote.h */
	bool verbs;     /* made of devices' queue pairs: `qp-type`, devices, work requests */
};

extern const struct transport transport_tcp, transport_rdma, transport_udp;

/* In the order of the documentation, NULL-terminated. */
extern const struct transport *const transports[];

/* Do its engines offer all that the service needs? */
bool transport_can_serve(const struct transport *t, const struct service *service);
