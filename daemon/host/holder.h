/* Finds the process that has a socket or a file open, as far as /proc tells: of processes of other
 * users only root is told, and a unit with ProtectProc= sees none.  Any thread. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "file_id.h"

struct sockaddr_storage;

enum holding {
	HELD_UNKNOWN, /* there is no such thing, or it may be somebody's whom we cannot see */
	HELD_BY_PROCESS,
	/* Held by our user, and no process has it open: the rest of a process that was killed, as
	 * rings that are torn down for some seconds, or something that is passed on. */
	HELD_BY_NONE,
};

struct holder {
	enum holding by;
	pid_t pid;
	char name[16];
};

/* The holder of a socket of that type (SOCK_STREAM: one that listens) on the port or the path of
 * address. */
void holder_of_address(const struct sockaddr_storage *address, int type, struct holder *ret_holder);

/* The holder, another process than this one, of a lock (fcntl(2)) on a file or, device 0, a block
 * device.  Looks at all files that are open anywhere, which may wait for a file system. */
void holder_of_lock(const struct file_id *file, struct holder *ret_holder);

/* ": process PID (NAME) has it", or "" if that is not known. */
enum { HOLDER_TEXT_MAX = 64 };
const char *holder_text(const struct holder *holder, char text[static HOLDER_TEXT_MAX]);
