/* The listening sockets of a listener: the one place that makes them.  Main thread only. */
#pragma once
#include "engine.h"
#include "parse.h"
#include "socket_name.h"
#include "unix_socket.h"
#include "util.h"
#include "worker.h"

/* An address, as bound. */
struct bound {
	char text[ADDRESS_TEXT_MAX]; /* port 0 resolved */
	struct unix_socket file;     /* unix:/PATH: what to remove; else its path is "" */
	struct sockaddr_storage wanted, sa;
	bool activated; /* a socket unit's: neither its sockets nor its file are ours */
	char kept[SOCKET_NAME_TEXT_MAX]; /* as what the service manager keeps it; "": it does not */
	/* Sockets of a running listener that one being prepared has taken over.  The file of a Unix
	 * socket becomes the new one's when that serves. */
	struct bound *heir;
};

/* How long, from now on, an address that is in use is waited for if no process has it any more:
 * the rings of a daemon that was killed keep its sockets until they are torn down, which takes
 * seconds where there are many. */
#define SOCKET_WAIT_NS ((uint64_t)10 * NS_PER_S)

/* Binds one address for `count` workers, with sockets of that type: the caller owns them, whatever
 * is returned.  join: its port may be in use by sockets of ours.  end_ns: the end of the wait
 * above, CLOCK_MONOTONIC.  0, or -errno with the reason. */
int socket_bind(const struct sockaddr_storage *wanted, int type, struct worker_socket *sockets,
		unsigned count, bool join, uint64_t end_ns, struct bound *ret_bound,
		struct reason *reason);

/* 0 or -errno.  One for datagrams receives as soon as it is bound. */
int socket_listen(int fd);

/* Gives a listening socket that others have made what those of socket_bind() have; join: others of
 * ours will share its port.  0 or -errno. */
int socket_adopt(int fd, int family, bool join);

/* Removes the file of a Unix socket if it is still ours, so that no client finds the address any
 * more. */
void socket_unbind(struct bound *bound);
