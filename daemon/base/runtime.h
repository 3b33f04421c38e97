/* Where the control socket is when nobody said so: the same answer for the daemon and nbctl. */
#pragma once
#include <stddef.h>

#define RUNTIME_SOCKET "/run/nbserved/control.sock"

/* The socket of a daemon that this user starts: below $XDG_RUNTIME_DIR, where that is set and the
 * user is not root; else RUNTIME_SOCKET, as for the system's service.  In path, cut at `bytes`. */
void runtime_socket(char *path, size_t bytes);

/* The one that nbctl asks: the user's own if it is there, else the system's. */
void runtime_find_socket(char *path, size_t bytes);
