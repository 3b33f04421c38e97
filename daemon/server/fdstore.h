/* Listening sockets that outlive the process: the service manager keeps duplicates (descriptor
 * store) and passes them, and those of a socket unit, to the next process.  Main thread only. */
#pragma once
#include "socket_name.h"
#include "unix_socket.h"

struct listener;
struct notify;
struct listeners;

/* A socket passed by the service manager. */
struct fdstore_socket {
	int fd;                  /* -1: closed, or taken for good */
	struct socket_name name; /* listener "": from a socket unit */
	struct sockaddr_storage sa;
	char taker[CONFIG_NAME_MAX]; /* the listener that has taken it first; "": none */
	bool renamed; /* taken under another name than the service manager has for it */
};

/* The file of a socket that we made, for unix_socket_remove(); empty if there is none. */
struct unix_socket fdstore_file(const struct fdstore_socket *s);

/* An address of a socket unit, on which the service manager keeps listening. */
struct fdstore_unit {
	struct sockaddr_storage sa;
	int type;                   /* SOCK_STREAM or SOCK_DGRAM */
	char name[CONFIG_NAME_MAX]; /* usually the unit's name */
};

struct fdstore {
	struct notify *notify;
	struct fdstore_unit *units;
	unsigned unit_count;
	/* After the start those of socket units alone: no other socket can be bound there, so a
	 * listener that is begun again takes a duplicate. */
	struct fdstore_socket *list;
	unsigned count;
	unsigned max; /* maximum of descriptors that the service manager stores for us; 0: none */
};

/* Takes the descriptors passed by the environment ($LISTEN_FDS, $FDSTORE).  Closes and
 * logs those that are not listening sockets or that no listener of config can use, as
 * they could block an address. */
void fdstore_open(struct fdstore *f, struct notify *notify, const struct config *config);

/* The next socket from *position (0 at first) on that matches `wants`; NULL: no more. */
struct fdstore_socket *fdstore_find(struct fdstore *f, const struct socket_name *wants,
				    unsigned *position);

/* A duplicate of s, which f has, for that listener; or s itself, if it is not a socket unit's.
 * -errno: no descriptor is free. */
int fdstore_take(struct fdstore_socket *s, const struct socket_name *wants);

/* Ends the start: closes sockets that no listener took.  serves: the sockets that were taken will
 * be stored by fdstore_store().  The service manager stores no socket twice, so it first has to
 * forget their old names; those that a listener took which cannot serve it forgets as well. */
void fdstore_end_start(struct listeners *all, bool serves);
void fdstore_free(struct fdstore *f);

/* A socket unit's address that conflicts with `wanted`, or would receive the clients of `wanted`;
 * NULL: none. */
const struct fdstore_unit *fdstore_conflict(const struct fdstore *f,
					    const struct sockaddr_storage *wanted, int type);

/* Stores the sockets of l, which serves, with the service manager; logs
 * those that cannot be stored. */
void fdstore_store(struct listener *l);
/* Makes the service manager drop its duplicates of l's sockets. */
void fdstore_forget(struct listener *l);
