/* Code shared by the stores for files and block devices. */
#pragma once
#include "store.h"

/* store->open, prepare, changed and close of those stores, on the thread of a detached call. */
int file_open(struct export *e, struct reason *reason);
int file_prepare(struct export *e, bool *ret_made, struct reason *reason);
void file_close(struct export *e);
bool file_has_changed(const struct export *e, struct reason *reason);

/* The members that these stores have in common. */
#define FILE_STORE                                                                                 \
	.file = true, .open = file_open, .prepare = file_prepare, .changed = file_has_changed,     \
	.close = file_close

/* Called by their attach() and detach(): open and close m->sync_fd.  0,
 * or -errno with the reason. */
int file_attach(struct mount *m, struct reason *reason);
void file_detach(struct mount *m);

/* Called when a read or write that the worker itself began at begin_ns has taken long.  waited: it
 * has blocked, so the worker makes no further call until m->slow_until_ns.  In any case later calls
 * are checked for blocking. */
void file_auto_slow(struct mount *m, uint64_t begin_ns, uint64_t took_ns, bool waited);

/* Fills io->extents for io's range from fd (lseek(2), SEEK_DATA and SEEK_HOLE): one at least, as
 * many as there is room for.  On a file system without SEEK_HOLE all is data.  Counts its system
 * calls in io->calls.  Any thread.  0 or -errno. */
int file_extents(struct io *io, int fd);

/* Does this error of fallocate() mean that the operation is not supported for the file, or for this
 * range of the device?  A device zeroes only whole sectors. */
bool file_cannot_allocate(const struct io *io, int error);

/* Fills new storage with data, for `create = yes` and `store = memory`, which otherwise have
 * only holes: a client that reads holes measures neither the disk nor the network.  Writes
 * all of e->memory or e->fd, which has e->size bytes, for some seconds at most.  Any thread; may
 * block.  0, or -errno with the reason. */
int file_fill(const struct export *e, struct reason *reason);
