/* Listening sockets that outlive the process: the service manager keeps copies of them, and gives
 * them to the next one with those of a socket unit.  Main thread only. */
#pragma once
#include "socket_name.h"
#include "unix_socket.h"

struct listener;
struct notify;
struct listeners;

/* A socket that the service manager gave us, until a listener takes it. */
struct kept_socket {
	int fd;                  /* -1: taken, or closed */
	struct socket_name name; /* listener "": from a socket unit */
	struct sockaddr_storage sa;
};

/* For unix_socket_remove(): the file of a socket of ours, nothing if it has none. */
struct unix_socket kept_file(const struct kept_socket *k);

/* A socket unit's address: whatever we do, the service manager listens there. */
struct kept_unit {
	struct sockaddr_storage sa;
	int type;                   /* SOCK_STREAM or SOCK_DGRAM */
	char name[CONFIG_NAME_MAX]; /* of the unit, mostly */
};

struct kept {
	struct notify *notify;
	struct kept_unit *units;
	unsigned unit_count;
	struct kept_socket *list;
	unsigned count;
	unsigned max; /* how many the service manager keeps for us; 0: it does not */
};

/* Takes what the environment says ($LISTEN_FDS, $FDSTORE).  Closes at once, and says so, what is no
 * socket of a listener and what no listener of config has a use for: it may be in the way of
 * others. */
void kept_open(struct kept *k, struct notify *notify, const struct config *config);

/* Of `wants`: the next that fits from *position on, NULL at the end.  Begin with 0. */
struct kept_socket *kept_find(struct kept *k, const struct socket_name *wants, unsigned *position);

/* Closes sockets that no listener took. */
void kept_close(struct kept *k);
void kept_free(struct kept *k);

/* A socket unit's socket that is in the way of `wanted`, or would take its clients; NULL: none. */
const struct kept_unit *kept_in_the_way(const struct kept *k, const struct sockaddr_storage *wanted,
					int type);

/* Has the service manager keep the sockets of l, which serves; says what it cannot keep. */
void kept_store(struct listener *l);
/* Has the service manager forget the sockets of l. */
void kept_forget(struct listener *l);
