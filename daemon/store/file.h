/* Files and block devices: what the stores that serve them have in common. */
#pragma once
#include "store.h"

/* store->open and store->close of those stores.  Main thread. */
int file_open(struct export *e, struct reason *reason);
void file_close(struct export *e);

/* Parts of their attach() and detach(): m->sync_fd.  0, or -errno with the reason. */
int file_attach(struct mount *m, struct reason *reason);
void file_detach(struct mount *m);

/* Decides for a mount with `store = auto` which requests its worker does by itself. */
void file_auto_attach(struct mount *m);
/* A call of the worker's that began at begin_ns took long, and is known to have waited or is not:
 * the worker makes no more until m->slow_until_ns, or watches those that follow. */
void file_auto_slow(struct mount *m, uint64_t begin_ns, uint64_t took_ns, bool waited);

/* `bytes` of a read or write are done: io->iov goes on behind them. */
void file_advance(struct io *io, size_t bytes);

/* Does fallocate()'s error mean that the file, or the device at this place, does not have the
 * operation?  A device zeroes nothing but whole sectors. */
bool file_cannot_allocate(const struct io *io, int error);
