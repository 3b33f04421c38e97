/* Locks on the files of exports, so that no two processes write to one: the kernel's, of an open
 * file description (fcntl(2), F_OFD_SETLK), taken once for this process, whose exports share it:
 * old and new of a reload, and those that only read.  Any thread; may wait for a file system. */
#pragma once
#include <stdbool.h>

#include "file_id.h"
#include "reason.h"

struct file_lock;

/* For fd, a file or block device that is open for reading, and for writing if to_write: then no
 * other process may have a lock on it, else none that writes.  What is left of one that was killed
 * is waited for, at most FILE_LOCK_WAIT_NS.  0, or -errno with the reason: -EBUSY with who has it;
 * -ENOLCK: there are no locks here. */
#define FILE_LOCK_WAIT_NS ((uint64_t)8 * NS_PER_S)
int file_lock_get(int fd, const char *path, bool to_write, struct file_lock **ret_lock,
		  struct reason *reason);

/* Gives back a lock of file_lock_get(), with the same to_write; NULL is fine. */
void file_lock_put(struct file_lock *lock, bool to_write);

/* Identifies a file under any of its names; for a device file, the device, not its node. */
struct file_id file_lock_id(const struct file_lock *lock);

/* Gives all of them up while the files stay open: whoever follows this process may have them. */
void file_locks_release(void);
