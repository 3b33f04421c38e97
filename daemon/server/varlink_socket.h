/* The Unix socket of a Varlink server: made safely, removed safely, and who is at its other end.
 * Main thread only. */
#pragma once
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "engine.h"

struct varlink_socket {
	struct sockaddr_un address;
	struct stat stat; /* of what we bound, so that we remove nothing else */
	int fd;           /* listening, non-blocking */
};

/* Binds with mode 0660 and, if that is allowed, group (-1: leave it).  A socket that nobody
 * listens on is replaced; one that is in use (-EADDRINUSE) and anything that is not a socket
 * (-EEXIST) are left alone.  0, or -errno with the reason. */
int varlink_socket_open(const char *path, gid_t group, struct varlink_socket *ret_socket,
			struct reason *reason);

/* Closes it and removes its file, if that is still ours. */
void varlink_socket_close(struct varlink_socket *socket);

struct varlink_peer {
	pid_t pid;
	uid_t uid;
	bool in_group; /* primary or supplementary */
};

/* Who connected, and whether they are in group (-1: there is none).  0 or -errno. */
int varlink_socket_peer(int fd, gid_t group, struct varlink_peer *ret_peer);
