/* See extents.h. */
#include "extents.h"

#include <errno.h>
#include <unistd.h>

#include "util.h"

/* Where the run that holds `at` ends, at most `end`; *ret_hole: what it is. */
static int64_t extent_end(int fd, uint64_t at, uint64_t end, bool *ret_hole)
{
	off_t data = lseek(fd, (off_t)at, SEEK_DATA), hole;

	*ret_hole = data < 0 ? errno == ENXIO : (uint64_t)data > at;
	if (data < 0 && errno != ENXIO)
		return errno == EINVAL ? (int64_t)end : -errno;
	if (*ret_hole)
		return data < 0 ? (int64_t)end : (int64_t)MIN((uint64_t)data, end);
	hole = lseek(fd, (off_t)at, SEEK_HOLE);
	if (hole < 0)
		return -errno;
	return (int64_t)MIN((uint64_t)hole, end);
}

int extents_of_file(struct io *io, int fd)
{
	uint64_t at = io->offset, end = io->offset + io->length;

	io->extent_count = 0;
	while (at < end && io->extent_count < IO_EXTENTS_MAX) {
		struct io_extent *extent = &io->extents[io->extent_count];
		int64_t next = extent_end(fd, at, end, &extent->hole);

		io->calls += extent->hole ? 1 : 2;
		if (next < 0)
			return (int)next;
		if ((uint64_t)next <= at) /* somebody writes meanwhile: look again */
			continue;
		extent->length = (uint64_t)next - at;
		at = (uint64_t)next;
		io->extent_count++;
	}
	return 0;
}
