/* The listening sockets of a listener: the one place that makes them.  Main thread only. */
#pragma once
#include "engine.h"
#include "parse.h"
#include "unix_socket.h"
#include "worker.h"

/* An address, as bound. */
struct bound {
	char text[ADDRESS_TEXT_MAX]; /* port 0 resolved */
	struct unix_socket file;     /* unix:/PATH: what to remove; else its path is "" */
};

/* Binds one address for `count` workers: sockets[0], sockets[stride], and so on; the caller owns
 * them, whatever is returned.  0, or -errno with the reason. */
int socket_bind(const struct sockaddr_storage *wanted, struct worker_socket *sockets,
		unsigned count, unsigned stride, struct bound *ret_bound, struct reason *reason);

/* All that were bound, at once: a connection that came before would be given to a socket that might
 * yet be closed. */
int socket_listen_all(const struct worker_socket *sockets, unsigned count, struct reason *reason);

/* Closes those that are open (fd >= 0). */
void socket_close_all(struct worker_socket *sockets, unsigned count);

/* Nobody can find the address any more, if it is a file that is still ours. */
void socket_unbind(struct bound *bound);
