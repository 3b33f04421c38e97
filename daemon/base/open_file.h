/* Opens files that a user has named; the path may lead to anything.  Any thread. */
#pragma once
#include <stdbool.h>

/* Opens a regular file, or a block device if or_device.  Never blocks as open(2) of a FIFO would,
 * and never acquires a controlling terminal.  flags: of open(2).  Returns the descriptor, which the
 * caller owns, with O_CLOEXEC and without O_NONBLOCK; or -errno, and in *ret_why a text (static or
 * from strerror()): -EISDIR for a directory, -ESPIPE for any other type of file. */
int open_file(const char *path, int flags, bool or_device, const char **ret_why);
