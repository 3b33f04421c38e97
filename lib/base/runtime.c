/* Paths of control sockets, from the environment.  See runtime.h. */
#include "runtime.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

void runtime_make_directory(const char *path)
{
	char own[PATH_MAX];

	runtime_socket(own, sizeof(own));
	if (strcmp(path, own) != 0 || strcmp(path, RUNTIME_SOCKET) == 0)
		return;
	*strrchr(own, '/') = '\0';
	mkdir(own, 0755);
}
