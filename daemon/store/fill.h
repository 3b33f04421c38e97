/* Fills new storage with data, for `create = yes` and `store = memory`, which otherwise have only
 * holes: a client that reads holes measures neither the disk nor the network.  Any thread; may
 * block. */
#pragma once
#include "store.h"

/* Writes all of e->fd, which has e->size bytes, for some seconds at most.  0, or -errno with the
 * reason. */
int fill_export(const struct export *e, struct reason *reason);
