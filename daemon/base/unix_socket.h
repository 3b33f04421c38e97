/* Listening Unix sockets: safe creation and removal, and the credentials of their
 * peers.  Main thread only. */
#pragma once
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "file_id.h"
#include "reason.h"

struct unix_socket {
	struct sockaddr_un address;
	/* Identity of the file that bind() made, so that nothing else is removed. */
	struct file_id file;
	int fd; /* listening, non-blocking */
};

/* Binds with mode 0660 and, if permitted, group (-1: the group stays), and listens.  A socket that
 * no process has open is replaced.  One that is in use (-EADDRINUSE) and any other file (-EEXIST)
 * are left alone.  Meanwhile there is a file PATH.lock.  0, or -errno with the reason. */
int unix_socket_open(const char *path, gid_t group, int backlog, struct unix_socket *ret_socket,
		     struct reason *reason);

/* Does the path still lead to this socket's file? */
bool unix_socket_has_file(const struct unix_socket *socket);
/* Removes the socket's file if it is still ours, so that no client can connect any more;
 * does nothing the second time.  To be called while the socket is open: only then is the
 * inode number not reused. */
void unix_socket_remove(struct unix_socket *socket);
/* unix_socket_remove(), then closes the socket. */
void unix_socket_close(struct unix_socket *socket);

struct unix_peer {
	pid_t pid;
	uid_t uid;
	bool in_group; /* primary or supplementary */
};

/* Credentials of the peer of socket fd, and whether it is in group (-1: no group).  0 or -errno. */
int unix_socket_peer(int fd, gid_t group, struct unix_peer *ret_peer);
