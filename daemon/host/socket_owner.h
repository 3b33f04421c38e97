/* Finds the process that has a socket or a file open, as far as /proc shows it: processes of other
 * users only to root, and none of them in a unit with ProtectProc=. Any thread. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "file_id.h"

struct sockaddr_storage;

enum holding {
	/* No such socket or file, or its owner may be a process that we cannot see. */
	HELD_UNKNOWN,
	HELD_BY_PROCESS,
	/* Held by our user, but no process has it open.  A killed process left it: io_uring rings
	 * are torn down for some seconds.  Or it is in transit between processes. */
	HELD_BY_NONE,
};

struct socket_owner {
	enum holding by;
	pid_t pid;
	char name[16];
};

/* Finds the owner of a socket of that type (SOCK_STREAM: a listening one) on the
 * port or the path of address. */
void owner_of_address(const struct sockaddr_storage *address, int type,
		      struct socket_owner *ret_owner);

/* Finds the process, other than this one, that holds a lock (fcntl(2)) on a file or (device 0) a
 * block device.  Examines all open files of all processes, which may block on a file system. */
void owner_of_lock(const struct file_id *file, struct socket_owner *ret_owner);

/* ": process PID (NAME) has it", or "" if the owner is not known.  Returns text. */
enum { HOLDER_TEXT_MAX = 64 };
const char *owner_text(const struct socket_owner *owner, char text[static HOLDER_TEXT_MAX]);
