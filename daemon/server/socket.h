/* Makes the listening sockets of listeners.  Main thread only. */
#pragma once
#include "engine.h"
#include "parse.h"
#include "socket_name.h"
#include "unix_socket.h"
#include "util.h"
#include "worker.h"

/* Bytes asked for the queues of a UDP socket; the kernel gives up to net.core.rmem_max and
 * wmem_max. */
enum { UDP_SOCKET_BUFFER = 4 * 1024 * 1024 };

/* A bound address. */
struct bound {
	char text[ADDRESS_TEXT_MAX]; /* port 0 resolved */
	struct unix_socket file;     /* unix:/PATH: the file to remove; else its path is "" */
	struct sockaddr_storage wanted, sa;
	bool activated; /* belongs to a socket unit: neither its sockets nor its file are ours */
	/* Its sockets listen already, or share their port with a listener that serves.  The latter
	 * listen only when a reload is certain, or they would get connections that no worker
	 * accepts. */
	bool joins;
	/* Its name in the service manager's descriptor store; "": not stored. */
	char stored_as[SOCKET_NAME_TEXT_MAX];
	/* A running listener's address: the address of a listener being prepared that has taken its
	 * sockets over.  The file of a Unix socket becomes the new one's when that serves. */
	struct bound *heir;
};

/* How long a start or a reload tries addresses that are in use again, in all: the rings of a killed
 * daemon, or of workers that have just ended, keep sockets until they are torn down. */
#define SOCKET_WAIT_NS ((uint64_t)2 * NS_PER_S)

/* Binds one address for `count` workers, with sockets of that type; the caller owns them even on
 * failure.  join: sockets of this process may already use the port.  UDP sockets are then bound
 * only by socket_start(), since they would take clients of the others at once.  end_ns: end of the
 * wait above, CLOCK_MONOTONIC.  0, or -errno with the reason. */
int socket_bind(const struct sockaddr_storage *wanted, int type, struct worker_socket *sockets,
		unsigned count, bool join, uint64_t end_ns, struct bound *ret_bound,
		struct reason *reason);

/* Binds fd to `late` if that is not NULL, see struct worker_socket, and calls listen(2), which has
 * no effect on UDP sockets: they receive as soon as they are bound.  0 or -errno. */
int socket_start(int fd, const struct sockaddr_storage *late);

/* listen(2) for a socket of connections that socket_bind() has bound to sa.  first: it is the first
 * one of the address, and fails with EADDRINUSE if any other process listens there.  end_ns as in
 * socket_bind().  0, or -errno with the reason. */
int socket_listen(int fd, bool first, const struct sockaddr_storage *sa, uint64_t end_ns,
		  struct reason *reason);

/* Sets how long the kernel keeps TCP connections whose clients do not answer, for
 * connections accepted from now on.  Such a client acknowledges neither data nor, while
 * nothing is sent, the kernel's probes, or it does not open the window that it has closed.
 * ns 0: the kernel's default. */
void socket_set_keepalive(int fd, uint64_t ns);

/* Sets the options of socket_bind() on a socket that another process has made; join: sockets of
 * ours will share its port.  0 or -errno. */
int socket_adopt(int fd, int family, bool join);
