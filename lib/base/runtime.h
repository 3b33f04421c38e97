/* The default path of the control socket, the same for the daemon and nbctl. */
#pragma once
#include <stddef.h>

#define RUNTIME_SOCKET "/run/nbserved/control.sock"

/* Writes to path (`bytes` long) the socket of a daemon that this user starts: below
 * $XDG_RUNTIME_DIR if that is set and the user is not root; else RUNTIME_SOCKET, as
 * for the system's service. */
void runtime_socket(char *path, size_t bytes);

/* Writes the socket that nbctl connects to: the user's own if it exists, else RUNTIME_SOCKET. */
void runtime_find_socket(char *path, size_t bytes);

/* $TMPDIR, or the other if that is not set or empty. */
const char *runtime_folder(const char *other);

/* Chooses the control socket of a daemon without a file: that of $NBSERVED_SOCKET, or this user's
 * path, where nbctl looks first, unless another daemon uses it; else one in a new directory, in
 * /tmp if that in TMPDIR is too long for a socket.  path: room for a sockaddr_un's.  0, or -errno
 * with the directory that could not be made.  argv: of main(), for the guard that removes a
 * directory in TMPDIR if this process is killed.  directory: which was made, and the caller
 * removes when the daemon has ended; "": none. */
enum { RUNTIME_DIRECTORY_BYTES = 4096 };
int runtime_choose_socket(char **argv, char *path, size_t bytes,
			  char directory[static RUNTIME_DIRECTORY_BYTES]);
