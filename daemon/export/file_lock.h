/* Locks on the files of exports, so that no two processes write to the same file.  They are locks
 * of open file descriptions (fcntl(2), F_OFD_SETLK), one per file (device and inode, or device
 * of a node) and process: all exports of this process on the file share one struct file_lock (old
 * and new ones of a reload, read-only ones), under whatever names.  Any thread; may
 * block on a file system. */
#pragma once
#include <stdbool.h>

#include "reason.h"

struct file_lock;

/* Locks the file or block device fd, which is open for reading, and for writing if to_write:
 * exclusively if to_write, else shared.  Waits for another process to release it, at most
 * FILE_LOCK_WAIT_NS: the rings of a killed one are torn down meanwhile.  On a file system without
 * locks the result is a lock against this process alone.  0, or -errno with the reason, -EBUSY:
 * another process has it. */
#define FILE_LOCK_WAIT_NS ((uint64_t)2 * NS_PER_S)
int file_lock_get(int fd, const char *path, bool to_write, struct file_lock **ret_lock,
		  struct reason *reason);

/* Releases a lock of file_lock_get(), with the same to_write; lock may be NULL.  The last user
 * empties a file that was made (file_lock_end()) and is not kept (file_lock_keep()), so that
 * another start may make it with another size. */
void file_lock_put(struct file_lock *lock, bool to_write);

/* Called before and after the creation of the file, by one thread at a time. made: the file was
 * empty, and now has a size. lock may be NULL. */
void file_lock_begin(struct file_lock *lock);
void file_lock_end(struct file_lock *lock, bool made);
/* Clients are served from the file: it stays, even if a later user makes it again, as after
 * truncate(1).  Never waits; lock may be NULL. */
void file_lock_keep(struct file_lock *lock);
