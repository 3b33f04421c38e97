/* Unix sockets to listen on: made safely, removed safely, and who is at their other end.  Main
 * thread only. */
#pragma once
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "file_id.h"
#include "reason.h"

struct unix_socket {
	struct sockaddr_un address;
	struct file_id file; /* of the socket that we bound, so that we remove nothing else */
	int fd;              /* listening, non-blocking */
};

/* Binds with mode 0660 and, if that is allowed, group (-1: leave it), and listens.  A socket that
 * nobody has open is replaced; one that is in use (-EADDRINUSE) and anything that is not a socket
 * (-EEXIST) are left alone.  0, or -errno with the reason. */
int unix_socket_open(const char *path, gid_t group, int backlog, struct unix_socket *ret_socket,
		     struct reason *reason);

/* Does the socket's path still lead to it? */
bool unix_socket_has_file(const struct unix_socket *socket);
/* Removes the socket's file, once, if that is still ours: nobody can connect any more.  Only while
 * the socket is open: until then no other file has its number. */
void unix_socket_remove(struct unix_socket *socket);
/* unix_socket_remove(), then closes the socket. */
void unix_socket_close(struct unix_socket *socket);

struct unix_peer {
	pid_t pid;
	uid_t uid;
	bool in_group; /* primary or supplementary */
};

/* Credentials of the peer, and whether it is in group (-1: there is none).  0 or -errno. */
int unix_socket_peer(int fd, gid_t group, struct unix_peer *ret_peer);
