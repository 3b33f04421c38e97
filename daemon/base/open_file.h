/* Opening what a user has named, where the name may stand for anything.  Any thread. */
#pragma once
#include <stdbool.h>

/* Opens a regular file, or a block device if it may be one, and never waits for whoever else has to
 * open it (a FIFO: fifo(7)), nor becomes a terminal's.  flags: of open(2); the descriptor has
 * O_CLOEXEC, and not O_NONBLOCK.  It; or -errno with why, static or strerror()'s: -ESPIPE for what
 * is something else, -EISDIR for a directory. */
int open_file(const char *path, int flags, bool or_device, const char **ret_why);
