/* Files and block devices, opened for the stores that serve them.  Main thread. */
#pragma once
#include "store.h"

/* store->open and store->close of those stores. */
int file_open(struct export *e, struct reason *reason);
void file_close(struct export *e);
