/* Locks on the files of exports, so that no two processes write to the same file.  They are locks
 * of open file descriptions (fcntl(2), F_OFD_SETLK), one per file and process: all exports of this
 * process on the file share it (old and new ones of a reload, read-only ones).  Any thread; may
 * block on a file system. */
#pragma once
#include <stdbool.h>

#include "file_id.h"
#include "reason.h"

struct file_lock;

/* Locks the file or block device fd, which is open for reading, and for writing if to_write:
 * exclusively if to_write, else shared.  If only a killed process still holds the lock, waits for
 * that to end, at most FILE_LOCK_WAIT_NS.  0, or -errno with the reason: -EBUSY with the process
 * that holds it; -ENOLCK: no locks on this file system. */
#define FILE_LOCK_WAIT_NS ((uint64_t)8 * NS_PER_S)
int file_lock_get(int fd, const char *path, bool to_write, struct file_lock **ret_lock,
		  struct reason *reason);

/* Releases a lock of file_lock_get(), with the same to_write; lock may be NULL. */
void file_lock_put(struct file_lock *lock, bool to_write);

/* Identifies the file under any of its names; for a device node, the device. */
struct file_id file_lock_id(const struct file_lock *lock);
