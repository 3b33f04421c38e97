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

/* Makes the directory of path, the control socket, if it is the user's own below $XDG_RUNTIME_DIR:
 * no other program makes that.  If this fails, the later bind reports the error. */
void runtime_make_directory(const char *path);
