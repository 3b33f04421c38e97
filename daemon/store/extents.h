/* The extents of a file: its data and its holes. */
#pragma once
#include "store.h"

/* Fills io->extents for io's range from fd (lseek(2), SEEK_DATA and SEEK_HOLE): one at least, as
 * many as there is room for.  On a file system without SEEK_HOLE all is data.  Counts its system
 * calls in io->calls.  Any thread.  0 or -errno. */
int extents_of_file(struct io *io, int fd);
