/* Paths of control sockets, from the environment.  See runtime.h. */
#include "runtime.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "guard.h"

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

static bool is_in_use(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool used;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	used = fd >= 0 &&
	       (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 || errno == EAGAIN);
	if (fd >= 0)
		close(fd);
	return used;
}

/* May a socket be made there? */
static bool is_free(const char *path)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX];

	snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) : 1,
		 slash ? path : ".");
	return access(*folder ? folder : "/", W_OK) == 0 && !is_in_use(path);
}

const char *runtime_folder(const char *other)
{
	const char *folder = getenv("TMPDIR");

	return folder && *folder ? folder : other;
}

/* Does a path of that length fit into sockaddr_un? */
static bool is_short(size_t length)
{
	return length < sizeof(((struct sockaddr_un *)NULL)->sun_path);
}

/* This user's path, whose folder is made.  False: it is not free. */
static bool take_own(char *path, size_t bytes, char directory[static RUNTIME_DIRECTORY_BYTES])
{
	char *slash;
	bool can;

	runtime_socket(path, bytes);
	/* A run by root would take the path of the system's service, which could not start. */
	if (!strncmp(path, RUNTIME_SOCKET, strlen(path)) || !is_short(strlen(path)))
		return false;
	slash = strrchr(path, '/');
	*slash = '\0';
	can = mkdir(path, 0755) == 0;
	if (can)
		snprintf(directory, RUNTIME_DIRECTORY_BYTES, "%s", path);
	can = can || (errno == EEXIST && access(path, W_OK) == 0);
	*slash = '/';
	return can && !is_in_use(path);
}

int runtime_choose_socket(char **argv, char *path, size_t bytes,
			  char directory[static RUNTIME_DIRECTORY_BYTES])
{
	static const char made[] = "nbserved-XXXXXX", name[] = "control.sock";
	const char *named = getenv("NBSERVED_SOCKET"), *folder = runtime_folder("/tmp");

	directory[0] = '\0';
	if (named && *named && is_free(named)) {
		snprintf(path, bytes, "%s", named);
		return 0;
	}
	guard_start(argv, NULL);
	if (take_own(path, bytes, directory)) {
		/* A folder that was there stays: the next start replaces a socket in it. */
		if (*directory)
			guard_remove(directory);
		return 0;
	}
	if (!is_short(strlen(folder) + 1 + strlen(made) + 1 + strlen(name)))
		folder = "/tmp";
	snprintf(directory, RUNTIME_DIRECTORY_BYTES, "%s/%s", folder, made);
	if (!mkdtemp(directory))
		return -errno;
	guard_remove(directory);
	snprintf(path, bytes, "%s/%s", directory, name);
	return 0;
}
