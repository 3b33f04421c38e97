/* See runtime.h. */
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void runtime_socket(char *path, size_t bytes)
{
	const char *directory = geteuid() != 0 ? getenv("XDG_RUNTIME_DIR") : NULL;

	/* systemd sets RUNTIME_DIRECTORY for a service, which may run as a user other than root. */
	if (directory && directory[0] == '/' && !getenv("RUNTIME_DIRECTORY"))
		snprintf(path, bytes, "%s/nbserved/control.sock", directory);
	else
		snprintf(path, bytes, "%s", RUNTIME_SOCKET);
}

void runtime_find_socket(char *path, size_t bytes)
{
	runtime_socket(path, bytes);
	if (access(path, F_OK) != 0)
		snprintf(path, bytes, "%s", RUNTIME_SOCKET);
}
