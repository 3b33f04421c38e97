/* Data and holes of a file, by lseek(2).  The file may change meanwhile.  See extents.h. */
#include "extents.h"

#include <errno.h>
#include <unistd.h>

#include "util.h"

/* SEEK_DATA has found no data behind `at`: a hole reaches up to the end of the file.  Returns its
 * end; -EIO: the file was truncated meanwhile. */
static int64_t extent_last(struct io *io, int fd, uint64_t at, uint64_t end)
{
	off_t size = lseek(fd, 0, SEEK_END);

	io->calls++;
	if (size < 0)
		return -errno;
	return (uint64_t)size > at ? (int64_t)MIN((uint64_t)size, end) : -EIO;
}

/* End of the extent that contains `at`, at most `end`; *ret_hole: it is a hole. */
static int64_t extent_end(struct io *io, int fd, uint64_t at, uint64_t end, bool *ret_hole)
{
	off_t data = lseek(fd, (off_t)at, SEEK_DATA), hole;

	io->calls++;
	*ret_hole = data < 0 ? errno == ENXIO : (uint64_t)data > at;
	if (data < 0 && errno != ENXIO)
		return errno == EINVAL ? (int64_t)end : -errno;
	if (data < 0)
		return extent_last(io, fd, at, end);
	if (*ret_hole)
		return (int64_t)MIN((uint64_t)data, end);
	io->calls++;
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
		int64_t next = extent_end(io, fd, at, end, &extent->hole);

		/* Report the extents found so far; the next request meets the error. */
		if (next < 0)
			return io->extent_count > 0 ? 0 : (int)next;
		if ((uint64_t)next <= at) /* changed by a concurrent write: look again */
			continue;
		extent->length = (uint64_t)next - at;
		at = (uint64_t)next;
		io->extent_count++;
	}
	return 0;
}
